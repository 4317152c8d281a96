//! Networking and shared state that several modules need and that make no policy: HTTP client, TLS, files that change, the Redis connection,
//! the PROXY protocol, digests.

pub(crate) mod background_task;
pub(crate) mod digest;
pub(crate) mod file_watcher;
pub(crate) mod http_client;
pub(crate) mod proxy_protocol;
pub(crate) mod redis_client;
pub(crate) mod swap_cell;

pub use background_task::BackgroundTask;
pub(crate) use swap_cell::SwapCell;
