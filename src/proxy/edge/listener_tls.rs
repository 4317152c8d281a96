//! TLS for a listener, with certificates that are reloaded when their files change.
//!
//! Uses rustls directly: pingora's listener supports neither a PROXY header before the handshake nor changing
//! certificates.

use super::transport::RawStream;
use super::write_timeout::WriteTimeoutStream;
use crate::config::certificate;
use crate::config::listen;
use crate::net::file_watcher::Watched;
use crate::telemetry::ListenerMetrics;
use crate::telemetry::internal_event::{CertificateExpired, CertificateReloadFailed, CertificateReloaded};
use crate::telemetry::label::ConnectionRejectReason;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// Maximum number of encrypted bytes buffered per client, in addition to `limits.client_buffer`.
const WRITE_BUFFER_LIMIT: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct ListenerTls {
    material: Watched<ListenerTlsMaterial>,
}

#[derive(Debug)]
struct ListenerTlsMaterial {
    config: Arc<ServerConfig>,
    /// in seconds since the epoch
    not_after: i64,
}

impl ListenerTls {
    pub(super) fn open(files: &listen::ListenerTlsConfig) -> Result<Self, String> {
        let client = files.client.as_ref();
        let mut paths = vec![files.cert.clone(), files.key.clone()];
        paths.extend(client.map(|client| client.ca.clone()));
        let required = client.is_some_and(|client| client.required);
        let replaces = AtomicBool::new(false);
        let material = Watched::open_all(paths, move |contents| {
            let material = load_material(contents, required)?;
            // Replacing a valid certificate with an expired one is a mistake.
            if replaces.swap(true, Ordering::Relaxed) && material.not_after <= unix_seconds() {
                return Err("the certificate has expired".to_owned());
            }
            Ok(material)
        });
        Ok(ListenerTls { material: material.map_err(|error| error.in_file(&files.cert).to_string())? })
    }

    /// Reports the initial certificate.
    pub(super) fn report_certificate(&self, listener: &str, metrics: &ListenerMetrics) {
        let not_after = self.material.get().not_after;
        if let Some(tls) = &metrics.tls {
            tls.not_after.set(not_after);
        }
        if not_after <= unix_seconds() {
            CertificateExpired { listener, not_after }.emit();
        }
    }

    pub(super) async fn watch(&self, listener: &str, metrics: &ListenerMetrics) {
        self.material
            .watch(|_, result| match result {
                Ok(()) => CertificateReloaded { listener, not_after: self.material.get().not_after }.emit(metrics),
                Err(cause) => CertificateReloadFailed { listener, cause: &cause.to_string() }.emit(metrics),
            })
            .await;
    }

    pub(super) async fn handshake(
        &self,
        stream: WriteTimeoutStream<RawStream>,
    ) -> io::Result<TlsStream<WriteTimeoutStream<RawStream>>> {
        let config = Arc::clone(&self.material.get().config);
        let mut stream = TlsAcceptor::from(config).accept(stream).await?;
        stream.get_mut().1.set_buffer_limit(Some(WRITE_BUFFER_LIMIT));
        Ok(stream)
    }
}

pub(super) fn reject_reason(error: &io::Error) -> ConnectionRejectReason {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match of_tls {
        Some(rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)) => {
            ConnectionRejectReason::TlsCertificate
        }
        _ => ConnectionRejectReason::TlsHandshake,
    }
}

fn load_material(contents: &[Vec<u8>], required: bool) -> Result<ListenerTlsMaterial, String> {
    let [cert, key, ca @ ..] = contents else { return Err("certificate and key belong together".to_owned()) };
    let pair = certificate::parse_pair(cert, key).map_err(|error| error.to_string())?;
    let not_after = pair.not_after;
    let roots = ca.first().map(|ca| certificate::parse_authorities(ca)).transpose();
    let roots = roots.map_err(|cause| format!("authorities of clients: {cause}"))?;
    let config = certificate::server_config(pair, roots.map(|roots| (roots, required)))?;
    Ok(ListenerTlsMaterial { config: Arc::new(config), not_after })
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
