//! What TLS connections to the agents of a route are made with, kept fresh while files change.
//!
//! The files are read together and taken together: a certificate whose key has not been replaced yet is not half a
//! change. They are compared by content, because a mounted Secret changes by a link to another folder.

use crate::config::{UpstreamClientCert, UpstreamTlsConfig, load};
use crate::telemetry::internal_event;
use parking_lot::{Mutex, MutexGuard};
use pingora_core::protocols::tls::CaType;
use pingora_core::utils::tls::{CertKey, WrappedX509, parse_x509};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How often the files are looked at.
const POLL: Duration = Duration::from_secs(2);

/// How long changed files have to stay as they are: those that are being written are not taken in the middle.
const SETTLE: Duration = Duration::from_millis(100);

/// Certificates and keys for connections that are made now.
pub(super) struct ClusterTls {
    route: Arc<str>,
    files: UpstreamTlsConfig,
    material: Mutex<Arc<ClusterTlsMaterial>>,
    /// what was found in the files last, usable or not: nothing is said twice
    last_contents: Mutex<TlsFileContents>,
}

/// What the files meant at one time.
#[derive(Default)]
pub(super) struct ClusterTlsMaterial {
    /// tells connections that were made with it from others; zero where nothing is configured
    pub(crate) id: u64,
    pub(crate) ca: Option<Arc<CaType>>,
    pub(crate) identity: Option<Arc<CertKey>>,
}

/// What stands in each file, or why it cannot be read, with its name.
type TlsFileContents = Vec<Result<Vec<u8>, String>>;

impl ClusterTls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub(super) fn open(route: &Arc<str>, files: &UpstreamTlsConfig) -> Result<Self, String> {
        let contents = read_all(files);
        let material = load_material(files, &contents)?;
        let (route, files) = (Arc::clone(route), files.clone());
        Ok(ClusterTls { route, files, material: Mutex::new(Arc::new(material)), last_contents: Mutex::new(contents) })
    }

    /// The name that certificates have to be for, where it is not the host.
    pub(super) fn server_name(&self) -> Option<&str> {
        self.files.server_name.as_deref()
    }

    /// What connections are made with now.
    pub(super) fn material(&self) -> Arc<ClusterTlsMaterial> {
        Arc::clone(&lock(&self.material))
    }

    /// Looks at the files from time to time: never returns.
    pub(super) async fn watch(&self) {
        loop {
            tokio::time::sleep(POLL).await;
            self.reload_if_changed().await;
        }
    }

    async fn reload_if_changed(&self) {
        let first = self.read_files().await;
        if first == *lock(&self.last_contents) {
            return;
        }
        tokio::time::sleep(SETTLE).await;
        if self.read_files().await != first {
            return;
        }
        let route = &self.route;
        match load_material(&self.files, &first) {
            Ok(material) => {
                *lock(&self.material) = Arc::new(material);
                internal_event::UpstreamTlsReloaded { route }.emit();
            }
            Err(cause) => internal_event::UpstreamTlsReloadFailed { route, cause: &cause }.emit(),
        }
        *lock(&self.last_contents) = first;
    }

    async fn read_files(&self) -> TlsFileContents {
        let files = self.files.clone();
        // A disk or a network that hangs must not hold up whatever else is watched.
        let read = tokio::task::spawn_blocking(move || read_all(&files)).await;
        read.unwrap_or_else(|error| vec![Err(error.to_string())])
    }
}

fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock()
}

/// The files in the order in which [`understand`] takes them.
fn file_paths(files: &UpstreamTlsConfig) -> Vec<&Path> {
    let UpstreamClientCert { cert, key } = match &files.identity {
        Some(identity) => identity,
        None => return files.ca.iter().map(AsRef::as_ref).collect(),
    };
    files.ca.iter().chain([cert, key]).map(AsRef::as_ref).collect()
}

fn read_all(files: &UpstreamTlsConfig) -> TlsFileContents {
    let each = |path: &Path| load::read_regular_file(path).map_err(|why| format!("{}: {why}", path.display()));
    file_paths(files).into_iter().map(each).collect()
}

fn load_material(files: &UpstreamTlsConfig, contents: &TlsFileContents) -> Result<ClusterTlsMaterial, String> {
    static LAST_ID: AtomicU64 = AtomicU64::new(0);
    let contents: Vec<&[u8]> =
        contents.iter().map(|content| content.as_deref().map_err(String::clone)).collect::<Result<_, _>>()?;
    let mut contents = contents.into_iter().zip(file_paths(files));
    let mut next = || contents.next().ok_or("a file is missing".to_owned());
    let ca = match &files.ca {
        Some(_) => Some(parse_authorities(next()?)?),
        None => None,
    };
    let identity = match &files.identity {
        Some(_) => Some(parse_identity(next()?, next()?)?),
        None => None,
    };
    Ok(ClusterTlsMaterial { id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1, ca, identity })
}

/// The certificates of a file; pingora takes for granted that it can read them.
fn parse_certificates((content, path): (&[u8], &Path)) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |what: &str| format!("{}: {what}", path.display());
    let all = CertificateDer::pem_slice_iter(content).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| wrong(&format!("is no PEM: {error}")))?;
    if all.is_empty() {
        return Err(wrong("holds no certificate in PEM"));
    }
    if all.iter().any(|one| X509Certificate::from_der(one).is_err()) {
        return Err(wrong("holds a certificate that cannot be read"));
    }
    Ok(all)
}

fn parse_authorities(file: (&[u8], &Path)) -> Result<Arc<CaType>, String> {
    let all = parse_certificates(file)?;
    let mut store = RootCertStore::empty();
    for one in &all {
        store.add(one.clone()).map_err(|error| format!("{}: {error}", file.1.display()))?;
    }
    Ok(all.into_iter().map(|one| WrappedX509::new(one.to_vec(), parse_x509)).collect())
}

/// A certificate and its key, which have to fit.
fn parse_identity(cert: (&[u8], &Path), key: (&[u8], &Path)) -> Result<Arc<CertKey>, String> {
    let (chain, path) = (parse_certificates(cert)?, key.1.display());
    // The reader's own words may repeat what stands in the file.
    let key = PrivateKeyDer::from_pem_slice(key.0).map_err(|_| format!("{path}: holds no private key in PEM"))?;
    let pair = CertKey::new(chain.iter().map(|one| one.to_vec()).collect(), key.secret_der().to_vec());
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let fits = builder.with_root_certificates(RootCertStore::empty()).with_client_auth_cert(chain, key);
    fits.map_err(|error| format!("{path}: cannot be used with {}: {error}", cert.1.display()))?;
    Ok(Arc::new(pair))
}
