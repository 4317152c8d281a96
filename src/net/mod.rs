//! Policy-free infrastructure: HTTP client, TLS, watched files, Redis connection, PROXY protocol, digests. It does not
//! log; callers report its results.

pub(crate) mod background_task;
pub(crate) mod cpu_work;
pub(crate) mod digest;
pub(crate) mod forwarded;
pub mod peer_addr;
pub(crate) mod proxy_protocol;
pub(crate) mod read_file;
pub(crate) mod file_watcher;
pub(crate) mod redis_client;
pub(crate) mod swap_cell;
pub(crate) mod tls;
pub(crate) mod url;
pub(crate) mod http_client;

pub use background_task::BackgroundTask;
pub(crate) use swap_cell::SwapCell;
