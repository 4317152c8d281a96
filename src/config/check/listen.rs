//! Listeners: their addresses, certificates, and whom their connections come from.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_saphyr::Location;

use super::{ConfigChecker, LocatedValue, SourcePosition, collect_values, position};
use crate::config::access::{TrustedProxies, TrustedProxy};
use crate::config::file::{self, Scalar, SocketListSpec, SocketMapping, SocketSpec};
use crate::config::listen::{ClientAuthConfig, ListenAddress, ListenerConfig, ListenerTlsConfig};
use crate::config::schema::kind::{self, OpenKind};
use crate::config::{certificate, enum_values, scalar};

impl ConfigChecker<'_> {
    pub(super) fn check_trusted_proxies(&mut self, written: &[Scalar<kind::TrustedProxy>]) -> Option<TrustedProxies> {
        let all: Vec<TrustedProxy> =
            collect_values(self.read_list(written, "trusted_proxies", scalar::parse_trusted_proxy))?;
        let mut trusted = TrustedProxies::default();
        for one in all {
            match one {
                TrustedProxy::Network(network) => trusted.networks.push(network),
                TrustedProxy::Unix => trusted.unix = true,
            }
        }
        Some(trusted)
    }

    /// The listeners of the data plane and of the status plane.
    pub(super) fn check_listeners(
        &mut self,
        written: &file::ListenersSpec,
        trusted: Option<&TrustedProxies>,
    ) -> Option<(Vec<ListenerConfig>, Vec<ListenerConfig>)> {
        let data = self.check_sockets(&written.data, "listeners.data", trusted);
        let status = self.check_sockets(&written.status, "listeners.status", trusted);
        if data.is_empty() {
            let hint = "write an address such as `127.0.0.1:8787`, or remove the key to use the default";
            self.report_error(
                "listeners.data",
                position(written.data.defined),
                "no address to listen on is configured",
                hint,
            );
        }
        let all: Vec<&LocatedValue<ListenerConfig>> = data.iter().chain(&status).flatten().collect();
        let hint = "give each listener its own port";
        self.report_duplicates(&all, ListenerConfig::overlaps, "this address is already used by", hint);
        self.own_listeners = data.iter().flatten().cloned().collect();
        Some((collect_values(data)?, collect_values(status)?))
    }

    pub(super) fn check_sockets(
        &mut self,
        written: &file::Spanned<SocketListSpec>,
        path: &str,
        trusted: Option<&TrustedProxies>,
    ) -> Vec<Option<LocatedValue<ListenerConfig>>> {
        match &written.value {
            SocketListSpec::One(one) => {
                vec![self.check_socket(one, path, written.defined, written.referenced, trusted)]
            }
            SocketListSpec::Many(many) => {
                let each = |(index, one): (usize, &file::Spanned<SocketSpec>)| {
                    self.check_socket(&one.value, &format!("{path}[{index}]"), one.defined, one.referenced, trusted)
                };
                many.iter().enumerate().map(each).collect()
            }
        }
    }

    fn check_socket(
        &mut self,
        written: &SocketSpec,
        path: &str,
        defined: Location,
        used: Location,
        trusted: Option<&TrustedProxies>,
    ) -> Option<LocatedValue<ListenerConfig>> {
        let listen = match written {
            SocketSpec::Address(address) => {
                let address = self.read(address, path, position(defined), scalar::parse_listen_address)?;
                ListenerConfig { address, tls: None, proxy_protocol: false }
            }
            SocketSpec::Mapping(mapping) => self.check_socket_mapping(mapping, path, position(defined), trusted)?,
        };
        Some(LocatedValue::new(listen, path, used))
    }

    fn check_socket_mapping(
        &mut self,
        written: &SocketMapping,
        at: &str,
        whole: Option<SourcePosition>,
        trusted: Option<&TrustedProxies>,
    ) -> Option<ListenerConfig> {
        let example = "the address to listen on, such as `address: 0.0.0.0:8443`";
        let address = self.require_key(written.address.as_ref(), at, "address", example, whole);
        let address = address
            .and_then(|address| self.read_value(address, &format!("{at}.address"), scalar::parse_listen_address));
        let address = self.apply_mode(written.mode.as_ref(), address, &format!("{at}.mode"));
        let tls = written.tls.as_ref().map(|tls| self.check_listener_tls(tls, &format!("{at}.tls")));
        let proxy_protocol = self.read_bool(&written.proxy_protocol, &format!("{at}.proxy_protocol"));
        let (address, proxy_protocol) = (address?, proxy_protocol?);
        if let (true, Some(trusted), false) = (proxy_protocol, trusted, self.is_skipped("trusted_proxies")) {
            self.check_proxy_protocol(&written.proxy_protocol, &address, trusted, &format!("{at}.proxy_protocol"));
        }
        let tls = match tls {
            Some(read) => Some(read?),
            None => None,
        };
        Some(ListenerConfig { address, tls, proxy_protocol })
    }

    fn apply_mode(
        &mut self,
        written: Option<&Scalar<impl OpenKind>>,
        address: Option<ListenAddress>,
        path: &str,
    ) -> Option<ListenAddress> {
        let Some(written) = written else { return address };
        let wanted = self.read_value(written, path, scalar::parse_mode);
        match address? {
            ListenAddress::Unix { path, .. } => Some(ListenAddress::Unix { path, mode: wanted? }),
            ListenAddress::Tcp(_) => {
                let message = "permissions apply only to Unix sockets, and this is a network address";
                self.report_error(path, position(written.defined), message, "remove it, or listen on a Unix socket");
                None
            }
        }
    }

    /// Notes a header that nobody who sends it would be believed for.
    fn check_proxy_protocol(
        &mut self,
        written: &Scalar<impl OpenKind>,
        address: &ListenAddress,
        trusted: &TrustedProxies,
        path: &str,
    ) {
        let (believed, hint) = match address {
            ListenAddress::Tcp(_) => {
                let hint = "list the proxies in `trusted_proxies`, such as `trusted_proxies: [10.0.0.0/8]`";
                (!trusted.networks.is_empty(), hint)
            }
            ListenAddress::Unix { .. } => (trusted.unix, "add `unix` to `trusted_proxies`"),
        };
        if !believed {
            let message = "no proxy is trusted, so the addresses in these headers would never be used";
            self.report_error(path, position(written.defined), message, hint);
        }
    }

    /// Reads all files of TLS now, so that what cannot be used is shown at its line.
    fn check_listener_tls(
        &mut self,
        written: &file::Spanned<file::ListenerTlsSpec>,
        at: &str,
    ) -> Option<ListenerTlsConfig> {
        let whole = position(written.defined);
        let files = &written.value;
        let example = "the certificate's file, such as `cert: tls.crt`";
        let cert = self.require_key(files.cert.as_ref(), at, "cert", example, whole);
        let example = "the file of its private key, such as `key: tls.key`";
        let key = self.require_key(files.key.as_ref(), at, "key", example, whole);
        let pair = cert.zip(key).map(|(cert, key)| self.check_certificate_pair(cert, key, at));
        let client = self.check_client_auth(files, at);
        let (cert, key, not_after) = pair??;
        if SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .is_ok_and(|now| i128::from(not_after) < i128::from(now.as_secs()))
        {
            let place = files.cert.as_ref().and_then(|text| position(text.defined));
            self.report_warning(
                &format!("{at}.cert"),
                place,
                "the certificate has expired",
                "renew it: clients that verify certificates will refuse to connect",
            );
        }
        Some(ListenerTlsConfig { cert, key, client: client? })
    }

    /// The files of a certificate and of its key, and when the certificate ends.
    pub(super) fn check_certificate_pair(
        &mut self,
        cert: &Scalar<kind::FileName>,
        key: &Scalar<kind::FileName>,
        at: &str,
    ) -> Option<(PathBuf, PathBuf, i64)> {
        let (cert_path, key_path) = (format!("{at}.cert"), format!("{at}.key"));
        let (cert_file, key_file) = (self.read_named_file(cert, &cert_path), self.read_named_file(key, &key_path));
        let ((cert_file, cert_pem), (key_file, key_pem)) = (cert_file?, key_file?);
        match certificate::parse_pair(&cert_pem, &key_pem) {
            Ok(pair) => return Some((cert_file, key_file, pair.not_after)),
            Err(certificate::CertificateError::Cert(cause)) => {
                let hint = "write the certificate in PEM, followed by the intermediate certificates that signed it";
                self.report_error(&cert_path, position(cert.defined), cause, hint);
            }
            Err(certificate::CertificateError::Key(cause)) => {
                let hint = "write the certificate's private key in PEM, without a password";
                self.report_error(&key_path, position(key.defined), cause, hint);
            }
        }
        None
    }

    /// A file of authorities that are believed.
    pub(super) fn check_authorities(&mut self, written: &Scalar<kind::FileName>, path: &str) -> Option<PathBuf> {
        let (ca, pem) = self.read_named_file(written, path)?;
        if let Err(cause) = certificate::parse_authorities(&pem) {
            let hint = "write the certificates of the authorities in PEM";
            self.report_error(path, position(written.defined), cause, hint);
            return None;
        }
        Some(ca)
    }

    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    fn check_client_auth(&mut self, files: &file::ListenerTlsSpec, at: &str) -> Option<Option<ClientAuthConfig>> {
        let path = format!("{at}.client_auth");
        let required = files.client_auth.as_ref().map(|text| self.read_choice(text, &path, enum_values::CLIENT_AUTH));
        let Some(written) = &files.client_ca else {
            if self.is_skipped(&format!("{at}.client_ca")) {
                return None;
            }
            if let Some(text) = &files.client_auth {
                let hint = "add `client_ca`, a file with the trusted authorities, or remove this key";
                let message = "no authority is trusted, so every client certificate would be rejected";
                self.report_error(&path, position(text.defined), message, hint);
                return None;
            }
            return Some(None);
        };
        let ca = self.check_authorities(written, &format!("{at}.client_ca"))?;
        let required = match required {
            Some(read) => read?,
            None => true,
        };
        Some(Some(ClientAuthConfig { ca, required }))
    }
}
