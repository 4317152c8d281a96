//! The status plane: what a kubelet and a Prometheus ask. Nothing here changes anything, and nothing here is secret.

mod status;

pub use status::router;
