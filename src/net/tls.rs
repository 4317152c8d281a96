//! Client TLS: system root certificates, crypto provider, and PEM parsing of certificates and keys.

use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemParserError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, Error, RootCertStore, WantsVerifier};

/// Starts building a TLS 1.2 and 1.3 client configuration with the crypto provider that pingora uses.
pub(crate) fn client_config() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions()
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SystemTlsError {
    #[error("this machine trusts no certificates; set SSL_CERT_FILE")]
    NoRoots,
    #[error(transparent)]
    Rustls(#[from] Error),
}

/// Creates a connector that trusts the system's certificates, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
pub(crate) fn system_connector() -> Result<TlsConnector, SystemTlsError> {
    let mut roots = RootCertStore::empty();
    // Unusable certificates are skipped; servers that depend on them fail as untrusted.
    let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if usable == 0 {
        return Err(SystemTlsError::NoRoots);
    }
    let config: ConfigBuilder<ClientConfig, WantsClientCert> = client_config()?.with_root_certificates(roots);
    Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
}

/// Describes a problem in a PEM file without quoting its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PemError {
    #[error("this file is not in PEM format")]
    Malformed,
    #[error("there is no certificate in this file")]
    NoCertificate,
    #[error("there is no private key in this file")]
    NoPrivateKey,
}

/// Parses all certificates of a PEM file, which must have at least one.
pub(crate) fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| PemError::Malformed)?;
    if certificates.is_empty() { Err(PemError::NoCertificate) } else { Ok(certificates) }
}

pub(crate) fn parse_private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        PemParserError::NoItemsFound => PemError::NoPrivateKey,
        _ => PemError::Malformed,
    })
}
