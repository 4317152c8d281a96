//! Two planes beside the data plane. The status plane is what a kubelet and a Prometheus ask: nothing there changes anything,
//! and nothing is secret. The admin plane changes the process, and listens where this user alone gets in: on a Unix socket.

mod control;
mod orders;
mod probe;
mod socket;
mod status;

pub use control::{Control, HandOver, router as control};
pub use orders::{Ask, Orders, Reloaded, Wish};
pub use probe::{Way, probe};
pub use socket::{Answer, Socket, ask, is_alive, serve};
pub use status::router;
