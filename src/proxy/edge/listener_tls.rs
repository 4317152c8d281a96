//! TLS of a listener: the certificate that it shows, kept as fresh as its files.
//!
//! rustls on the accepted stream, not by pingora's listener: that has the same rustls and its own streams, digests and
//! logging around it, and no place for a header in front of a handshake whose certificate may change.

use super::sending::Sending;
use super::transport::Wire;
use crate::config::certificate;
use crate::config::listen;
use crate::guard::file::Watched;
use crate::telemetry::ListenerMetrics;
use crate::telemetry::label::Turned;
use crate::telemetry::occurrence::{CertificateChanged, CertificateExpired, CertificateUnusable};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// How many bytes of an answer may wait, encrypted, for a client that takes none. Beside `limits.client_buffer`.
const UNSENT: usize = 16 << 10;

/// What a listener speaks TLS with.
#[derive(Debug)]
pub(super) struct Tls {
    material: Watched<Material>,
}

/// What the files hold.
#[derive(Debug)]
struct Material {
    config: Arc<ServerConfig>,
    /// seconds since the epoch
    not_after: i64,
}

impl Tls {
    /// Reads the files for the first time. A certificate that has ended is taken: there is no better one.
    ///
    /// # Errors
    /// What cannot be read or used.
    pub(super) fn open(files: &listen::Tls) -> Result<Self, String> {
        let client = files.client.as_ref();
        let paths: Vec<PathBuf> =
            [&files.cert, &files.key].into_iter().chain(client.map(|client| &client.ca)).cloned().collect();
        let required = client.is_some_and(|client| client.required);
        let replaces = AtomicBool::new(false);
        let material = Watched::open_all(paths, move |contents| {
            let material = material(contents, required)?;
            // In place of one that is still good, one that has ended is a mistake.
            if replaces.swap(true, Ordering::Relaxed) && material.not_after <= now() {
                return Err("the certificate has expired".to_owned());
            }
            Ok(material)
        })?;
        Ok(Tls { material })
    }

    /// Says what the first certificate is.
    pub(super) fn begin(&self, listener: &str, metrics: &ListenerMetrics) {
        let not_after = self.material.get().not_after;
        metrics.not_after(not_after);
        if not_after <= now() {
            CertificateExpired { listener, not_after }.emit();
        }
    }

    /// Keeps the certificate fresh: never returns.
    pub(super) async fn watch(&self, listener: &str, metrics: &ListenerMetrics) {
        loop {
            match self.material.changed().await {
                Ok(()) => {
                    let not_after = self.material.get().not_after;
                    CertificateChanged { listener, not_after }.emit(metrics);
                }
                Err(cause) => CertificateUnusable { listener, cause: &cause }.emit(metrics),
            }
        }
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// What the peer did wrong, or that it left.
    pub(super) async fn accept(&self, stream: Sending<Wire>) -> io::Result<TlsStream<Sending<Wire>>> {
        let config = Arc::clone(&self.material.get().config);
        let mut stream = TlsAcceptor::from(config).accept(stream).await?;
        stream.get_mut().1.set_buffer_limit(Some(UNSENT));
        Ok(stream)
    }
}

/// Why a handshake failed, as it is counted.
pub(super) fn why(error: &io::Error) -> Turned {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match of_tls {
        Some(rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)) => Turned::TlsCertificate,
        _ => Turned::TlsHandshake,
    }
}

fn material(contents: &[Vec<u8>], required: bool) -> Result<Material, String> {
    let [cert, key, ca @ ..] = contents else { return Err("certificate and key belong together".to_owned()) };
    let pair = certificate::pair(cert, key).map_err(certificate::Unusable::sentence)?;
    let not_after = pair.not_after;
    let roots = ca.first().map(|ca| certificate::authorities(ca)).transpose();
    let roots = roots.map_err(|cause| format!("authorities of clients: {cause}"))?;
    let config = certificate::server(pair, roots.map(|roots| (roots, required)))?;
    Ok(Material { config: Arc::new(config), not_after })
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
