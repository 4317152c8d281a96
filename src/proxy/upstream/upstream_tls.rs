//! Certificates and keys for TLS connections to a route's agents, reloaded when their files change.
//!
//! All files are replaced together, since a certificate and its key must match.

use crate::config::{UpstreamClientCert, UpstreamTlsConfig};
use crate::net::file_watcher::Watched;
use crate::net::tls;
use crate::telemetry::internal_event;
use pingora_core::protocols::tls::CaType;
use pingora_core::utils::tls::{CertKey, WrappedX509, parse_x509};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// TLS material for a route's new connections.
pub(super) struct ClusterTls {
    route: Arc<str>,
    /// the name that certificates must have instead of the host
    pub(super) server_name: Option<String>,
    material: Watched<Arc<ClusterTlsMaterial>>,
}

/// A snapshot of the files' content.
#[derive(Default)]
pub(super) struct ClusterTlsMaterial {
    /// different for each version of the content; zero if no files are configured
    pub(crate) id: u64,
    pub(crate) ca: Option<Arc<CaType>>,
    pub(crate) identity: Option<Arc<CertKey>>,
}

impl ClusterTls {
    pub(super) fn open(route: &Arc<str>, files: &UpstreamTlsConfig) -> Result<Self, String> {
        let parsed_files = files.clone();
        let material = Watched::open_all(file_paths(files), move |contents| load_material(&parsed_files, contents));
        Ok(ClusterTls {
            route: Arc::clone(route),
            server_name: files.server_name.clone(),
            material: material.map_err(|error| error.to_string())?,
        })
    }

    pub(super) fn material(&self) -> Arc<ClusterTlsMaterial> {
        Arc::clone(&self.material.get())
    }

    /// Polls the files; never returns.
    pub(super) async fn watch(&self) {
        let route = &self.route;
        self.material
            .watch(|_, result| match result {
                Ok(()) => internal_event::UpstreamTlsReloaded { route }.emit(),
                Err(cause) => internal_event::UpstreamTlsReloadFailed { route, cause: &cause.to_string() }.emit(),
            })
            .await;
    }
}

fn file_paths(files: &UpstreamTlsConfig) -> Vec<PathBuf> {
    let identity = files.identity.iter().flat_map(|UpstreamClientCert { cert, key }| [cert, key]);
    files.ca.iter().chain(identity).cloned().collect()
}

fn load_material(files: &UpstreamTlsConfig, contents: &[Vec<u8>]) -> Result<Arc<ClusterTlsMaterial>, String> {
    static LAST_ID: AtomicU64 = AtomicU64::new(0);
    let mut contents = contents.iter();
    let mut next = |path| contents.next().map(|content| TlsFile { path, content }).ok_or("a file is missing");
    let ca = match &files.ca {
        Some(path) => Some(parse_authorities(next(path)?)?),
        None => None,
    };
    let identity = match &files.identity {
        Some(UpstreamClientCert { cert, key }) => Some(parse_identity(next(cert)?, next(key)?)?),
        None => None,
    };
    Ok(Arc::new(ClusterTlsMaterial { id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1, ca, identity }))
}

#[derive(Clone, Copy)]
struct TlsFile<'a> {
    path: &'a Path,
    content: &'a [u8],
}

impl TlsFile<'_> {
    fn error(self, cause: impl fmt::Display) -> String {
        format!("{}: {cause}", self.path.display())
    }

    /// Reads certificates, checking that pingora can read them, too.
    fn certificates(self) -> Result<Vec<CertificateDer<'static>>, String> {
        let all = tls::parse_certificates(self.content).map_err(|error| self.error(error))?;
        if all.iter().any(|one| X509Certificate::from_der(one).is_err()) {
            return Err(self.error("a certificate in this file cannot be read"));
        }
        Ok(all)
    }
}

fn parse_authorities(file: TlsFile<'_>) -> Result<Arc<CaType>, String> {
    let all = file.certificates()?;
    let mut store = RootCertStore::empty();
    for one in &all {
        store.add(one.clone()).map_err(|error| file.error(error))?;
    }
    Ok(all.into_iter().map(|one| WrappedX509::new(one.to_vec(), parse_x509)).collect())
}

fn parse_identity(cert: TlsFile<'_>, key: TlsFile<'_>) -> Result<Arc<CertKey>, String> {
    let chain = cert.certificates()?;
    let private = tls::parse_private_key(key.content).map_err(|error| key.error(error))?;
    let pair = CertKey::new(chain.iter().map(|one| one.to_vec()).collect(), private.secret_der().to_vec());
    let builder = tls::client_config().map_err(|error| error.to_string())?;
    let config = builder.with_root_certificates(RootCertStore::empty()).with_client_auth_cert(chain, private);
    config.map_err(|error| key.error(format_args!("cannot be used with {}: {error}", cert.path.display())))?;
    Ok(Arc::new(pair))
}
