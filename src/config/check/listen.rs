//! Checks listeners: their addresses, certificates and PROXY protocol.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::config::access::TrustedProxies;
use crate::config::certificate;
use crate::config::checker::{ConfigChecker, LocatedValue, Place};
use crate::config::file::{ListenerTlsSpec, ListenersSpec, SocketListSpec, SocketMapping, SocketSpec};
use crate::config::inspect::CaptureMode;
use crate::config::listen::{ClientAuthConfig, ListenAddress, ListenerConfig, ListenerTlsConfig};
use crate::config::section::{FileValue, Section};

pub(crate) struct ListenersConfig {
    pub(crate) data: Vec<ListenerConfig>,
    pub(crate) status: Vec<ListenerConfig>,
    pub(crate) inspector: Vec<ListenerConfig>,
}

impl FileValue for ListenersSpec {
    type Checked = ListenersConfig;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<ListenersConfig> {
        let data = at.value_of("data", &self.data);
        let status = at.value_of("status", &self.status);
        let data_listeners = checker.check_sockets(&self.data.value, &data);
        let status_listeners = checker.check_sockets(&self.status.value, &status);
        let inspector = checker.check_sockets(&self.inspector.value, &at.value_of("inspector", &self.inspector));
        inspector.iter().flatten().for_each(|listener| checker.check_inspector(listener));
        status_listeners.iter().chain(&inspector).flatten().for_each(|listener| checker.check_no_capture(listener));
        if data_listeners.is_empty() {
            let hint = "write an address such as `127.0.0.1:8787`, or remove the key to use the default";
            checker.report_error(&data, "no address to listen on is configured", hint);
        }
        let all: Vec<_> = data_listeners.iter().chain(&status_listeners).chain(&inspector).flatten().cloned().collect();
        let hint = "give each listener its own port";
        checker.report_conflicts(&all, ListenerConfig::overlaps, "this address is already used by", hint);
        checker.own_listeners = data_listeners.iter().flatten().cloned().collect();
        Some(ListenersConfig {
            data: collect_values(data_listeners)?,
            status: collect_values(status_listeners)?,
            inspector: collect_values(inspector)?,
        })
    }
}

fn collect_values<T>(values: Vec<Option<LocatedValue<T>>>) -> Option<Vec<T>> {
    values.into_iter().map(|one| one.map(|one| one.value)).collect()
}

impl FileValue for SocketSpec {
    type Checked = ListenerConfig;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<ListenerConfig> {
        match self {
            SocketSpec::Address(address) => {
                let address = checker.read(address, at)?;
                Some(ListenerConfig { address, tls: None, proxy_protocol: false, inspect: CaptureMode::Off })
            }
            SocketSpec::Mapping(mapping) => mapping.check(checker, at),
        }
    }
}

impl FileValue for SocketMapping {
    type Checked = ListenerConfig;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<ListenerConfig> {
        let keys = self.check_keys(checker, at);
        let address = match (keys.address?, &self.mode) {
            (address, None) => address,
            (ListenAddress::Unix { path, .. }, Some(_)) => ListenAddress::Unix { path, mode: keys.mode?? },
            (ListenAddress::Tcp(_), Some(written)) => {
                let message = "permissions apply only to Unix sockets, and this is a network address";
                let place = at.value_of("mode", written);
                checker.report_error(&place, message, "remove it, or listen on a Unix socket");
                return None;
            }
        };
        let proxy_protocol = keys.proxy_protocol?;
        if proxy_protocol {
            let place = at.value_of("proxy_protocol", &self.proxy_protocol);
            checker.proxy_listeners.push(LocatedValue::new(address.clone(), place));
        }
        Some(ListenerConfig { address, tls: keys.tls?, proxy_protocol, inspect: keys.inspect? })
    }
}

impl FileValue for ListenerTlsSpec {
    type Checked = ListenerTlsConfig;

    /// Reads all files, so that each mistake is reported at its key.
    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<ListenerTlsConfig> {
        let keys = self.check_keys(checker, at);
        let not_after = match (&keys.cert, &*self.cert, &keys.key, &*self.key) {
            (Some(cert), Some(written_cert), Some(key), Some(written_key)) => {
                let cert = LocatedValue::new(cert.as_path(), at.value_of("cert", written_cert));
                let key = LocatedValue::new(key.as_path(), at.value_of("key", written_key));
                checker.check_certificate_pair(&cert, &key)
            }
            _ => None,
        };
        if let Some(written) = &*self.cert
            && not_after.zip(unix_now()).is_some_and(|(not_after, now)| not_after < now)
        {
            let hint = "renew it: clients that verify certificates will refuse to connect";
            checker.report_warning(&at.value_of("cert", written), "the certificate has expired", hint);
        }
        let client = match (&self.client_ca, &self.client_auth) {
            (Some(written), _) => {
                let ca = keys.client_ca??;
                checker.check_authorities(&ca, &at.value_of("client_ca", written))?;
                Some(ClientAuthConfig { ca, required: keys.client_auth?.unwrap_or(true) })
            }
            (None, _) if checker.is_skipped(&at.key("client_ca").path) => return None,
            (None, Some(written)) => {
                let hint = "add `client_ca`, a file with the trusted authorities, or remove this key";
                let message = "no authority is trusted, so every client certificate would be rejected";
                checker.report_error(&at.value_of("client_auth", written), message, hint);
                return None;
            }
            (None, None) => None,
        };
        not_after?;
        Some(ListenerTlsConfig { cert: keys.cert?, key: keys.key?, client })
    }
}

/// Returns the current Unix time in seconds.
fn unix_now() -> Option<i64> {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

impl ConfigChecker<'_> {
    fn check_sockets(&mut self, list: &SocketListSpec, at: &Place) -> Vec<Option<LocatedValue<ListenerConfig>>> {
        let entries = list.entries(at).into_iter();
        entries.map(|(place, socket)| Some(LocatedValue::new(socket.check(self, &place)?, place))).collect()
    }

    /// Reports a listener of the inspector that another machine could reach, or a browser could not.
    fn check_inspector(&mut self, listener: &LocatedValue<ListenerConfig>) {
        let hint = "write a loopback address such as `127.0.0.1:8789`, and reach it from elsewhere through `ssh -L` or \
                    `kubectl port-forward`";
        let config = &listener.value;
        if config.tcp_address().is_none_or(|address| !address.ip().is_loopback()) {
            let message = "the inspector shows what callers and agents say, so only this machine may reach it";
            self.report_error(&listener.place, message, hint);
        } else if config.tls.is_some() || config.proxy_protocol {
            let message = "the inspector needs no TLS and no PROXY protocol on loopback";
            self.report_error(&listener.place, message, hint);
        }
    }

    /// Reports a capture where no runs arrive.
    fn check_no_capture(&mut self, listener: &LocatedValue<ListenerConfig>) {
        if listener.value.inspect != CaptureMode::Off {
            let hint = "move `inspect` to a listener in `data`, or to a route";
            self.report_error(
                &listener.place,
                "runs arrive only at listeners in `data`: nothing is captured here",
                hint,
            );
        }
    }

    /// Reports PROXY protocol settings that have no effect because no proxy is trusted.
    pub(super) fn check_proxy_headers(&mut self, trusted: Option<&TrustedProxies>) {
        let Some(trusted) = trusted.filter(|_| !self.is_skipped("trusted_proxies")) else { return };
        for LocatedValue { value: address, place } in std::mem::take(&mut self.proxy_listeners) {
            let hint = match address {
                ListenAddress::Tcp(_) if trusted.networks.is_empty() => {
                    "list the proxies in `trusted_proxies`, such as `trusted_proxies: [10.0.0.0/8]`"
                }
                ListenAddress::Unix { .. } if !trusted.unix => "add `unix` to `trusted_proxies`",
                _ => continue,
            };
            let message = "no proxy is trusted, so the addresses in these headers would never be used";
            self.report_error(&place, message, hint);
        }
    }

    /// Returns the certificate's expiry as Unix time in seconds.
    pub(super) fn check_certificate_pair(
        &mut self,
        cert: &LocatedValue<&Path>,
        key: &LocatedValue<&Path>,
    ) -> Option<i64> {
        let cert_pem = self.read_file(cert.value, &cert.place);
        let key_pem = self.read_file(key.value, &key.place);
        match certificate::parse_pair(&cert_pem?, &key_pem?) {
            Ok(pair) => return Some(pair.not_after),
            Err(certificate::CertificateError::Cert(cause)) => {
                let hint = "write the certificate in PEM, followed by the intermediate certificates that signed it";
                self.report_error(&cert.place, cause, hint);
            }
            Err(certificate::CertificateError::Key(cause)) => {
                let hint = "write the certificate's private key in PEM, without a password";
                self.report_error(&key.place, cause, hint);
            }
        }
        None
    }

    pub(super) fn check_authorities(&mut self, file: &Path, at: &Place) -> Option<()> {
        let pem = self.read_file(file, at)?;
        let Err(cause) = certificate::parse_authorities(&pem) else { return Some(()) };
        self.report_error(at, cause, "write the certificates of the authorities in PEM");
        None
    }
}
