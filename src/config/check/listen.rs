//! Listeners: their addresses, certificates, and whom their connections come from.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_saphyr::{Location, Spanned};

use super::{Check, Position, Seen, every, position};
use crate::config::access::{TrustedProxies, TrustedProxy};
use crate::config::file::{self, SocketEntry, SocketMapping, Sockets, Text};
use crate::config::listen::{Address, ClientAuth, Listen, Tls};
use crate::config::{certificate, scalar, words};

impl Check<'_> {
    pub(super) fn trusted_proxies(&mut self, written: &[Text]) -> Option<TrustedProxies> {
        let all: Vec<TrustedProxy> = every(self.list(written, "trusted_proxies", scalar::trusted_proxy))?;
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
    pub(super) fn listeners(
        &mut self,
        written: &file::Listeners,
        trusted: Option<&TrustedProxies>,
    ) -> Option<(Vec<Listen>, Vec<Listen>)> {
        let data = self.sockets(&written.data, "listeners.data", trusted);
        let status = self.sockets(&written.status, "listeners.status", trusted);
        if data.is_empty() {
            let hint = "write an address such as `127.0.0.1:8787`, or take the key away to get its default";
            self.note("listeners.data", position(written.data.defined), "there is no address to listen on", hint);
        }
        let all: Vec<&Seen<Listen>> = data.iter().chain(&status).flatten().collect();
        let hint = "give each listener a port of its own";
        self.distinct(&all, Listen::overlaps, "this address is already taken by", hint);
        self.own = data.iter().flatten().cloned().collect();
        Some((every(data)?, every(status)?))
    }

    pub(super) fn sockets(
        &mut self,
        written: &Spanned<Sockets>,
        path: &str,
        trusted: Option<&TrustedProxies>,
    ) -> Vec<Option<Seen<Listen>>> {
        match &written.value {
            Sockets::One(one) => vec![self.socket(one, path, written.defined, written.referenced, trusted)],
            Sockets::Many(many) => {
                let each = |(index, one): (usize, &Spanned<SocketEntry>)| {
                    self.socket(&one.value, &format!("{path}[{index}]"), one.defined, one.referenced, trusted)
                };
                many.iter().enumerate().map(each).collect()
            }
        }
    }

    fn socket(
        &mut self,
        written: &SocketEntry,
        path: &str,
        defined: Location,
        used: Location,
        trusted: Option<&TrustedProxies>,
    ) -> Option<Seen<Listen>> {
        let listen = match written {
            SocketEntry::Address(address) => {
                let address = self.read(address, path, position(defined), scalar::listen)?;
                Listen { address, tls: None, proxy_protocol: false }
            }
            SocketEntry::Mapping(mapping) => self.mapping(mapping, path, position(defined), trusted)?,
        };
        Some(Seen::new(listen, path, used))
    }

    fn mapping(
        &mut self,
        written: &SocketMapping,
        at: &str,
        whole: Option<Position>,
        trusted: Option<&TrustedProxies>,
    ) -> Option<Listen> {
        let example = "where to listen, such as `address: 0.0.0.0:8443`";
        let address = self.needed(written.address.as_ref(), at, "address", example, whole);
        let address = address.and_then(|address| self.value(address, &format!("{at}.address"), scalar::listen));
        let address = self.with_mode(written.mode.as_ref(), address, &format!("{at}.mode"));
        let tls = written.tls.as_ref().map(|tls| self.tls(tls, &format!("{at}.tls")));
        let proxy_protocol = self.truth(&written.proxy_protocol, &format!("{at}.proxy_protocol"));
        let (address, proxy_protocol) = (address?, proxy_protocol?);
        if let (true, Some(trusted), false) = (proxy_protocol, trusted, self.is_lost("trusted_proxies")) {
            self.sent_by_somebody(&written.proxy_protocol, &address, trusted, &format!("{at}.proxy_protocol"));
        }
        let tls = match tls {
            Some(read) => Some(read?),
            None => None,
        };
        Some(Listen { address, tls, proxy_protocol })
    }

    fn with_mode(&mut self, written: Option<&Text>, address: Option<Address>, path: &str) -> Option<Address> {
        let Some(written) = written else { return address };
        let wanted = self.value(written, path, scalar::mode);
        match address? {
            Address::Unix { path, .. } => Some(Address::Unix { path, mode: wanted? }),
            Address::Tcp(_) => {
                let message = "an address of the network has no permissions";
                self.note(path, position(written.defined), message, "take it away; it belongs to Unix sockets");
                None
            }
        }
    }

    /// Notes a header that nobody who sends it would be believed for.
    fn sent_by_somebody(&mut self, written: &Text, address: &Address, trusted: &TrustedProxies, path: &str) {
        let (believed, hint) = match address {
            Address::Tcp(_) => {
                let hint = "name the proxies in front in `trusted_proxies`, such as `trusted_proxies: [10.0.0.0/8]`";
                (!trusted.networks.is_empty(), hint)
            }
            Address::Unix { .. } => (trusted.unix, "add `unix` to `trusted_proxies`"),
        };
        if !believed {
            let message = "the addresses in these headers would be believed from nobody";
            self.note(path, position(written.defined), message, hint);
        }
    }

    /// Reads all files of TLS now, so that what cannot be used is shown at its line.
    fn tls(&mut self, written: &Spanned<file::TlsFiles>, at: &str) -> Option<Tls> {
        let whole = position(written.defined);
        let files = &written.value;
        let example = "the certificate's file, such as `cert: tls.crt`";
        let cert = self.needed(files.cert.as_ref(), at, "cert", example, whole);
        let example = "the file of its private key, such as `key: tls.key`";
        let key = self.needed(files.key.as_ref(), at, "key", example, whole);
        let pair = cert.zip(key).map(|(cert, key)| self.pair(cert, key, at));
        let client = self.client_auth(files, at);
        let (cert, key, not_after) = pair??;
        if SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .is_ok_and(|now| i128::from(not_after) < i128::from(now.as_secs()))
        {
            let place = files.cert.as_ref().and_then(|text| position(text.defined));
            self.warn(
                &format!("{at}.cert"),
                place,
                "the certificate has expired",
                "renew it: clients that look will not connect",
            );
        }
        Some(Tls { cert, key, client: client? })
    }

    /// The files of a certificate and of its key, and when the certificate ends.
    pub(super) fn pair(&mut self, cert: &Text, key: &Text, at: &str) -> Option<(PathBuf, PathBuf, i64)> {
        let (cert_path, key_path) = (format!("{at}.cert"), format!("{at}.key"));
        let (cert_file, key_file) = (self.file(cert, &cert_path), self.file(key, &key_path));
        let ((cert_file, cert_pem), (key_file, key_pem)) = (cert_file?, key_file?);
        match certificate::pair(&cert_pem, &key_pem) {
            Ok(pair) => return Some((cert_file, key_file, pair.not_after)),
            Err(certificate::Unusable::Cert(cause)) => {
                let hint = "put the certificate there in PEM, and behind it those of the authorities that signed it";
                self.note(&cert_path, position(cert.defined), cause, hint);
            }
            Err(certificate::Unusable::Key(cause)) => {
                let hint = "put the private key of the certificate there in PEM, without a password";
                self.note(&key_path, position(key.defined), cause, hint);
            }
        }
        None
    }

    /// A file of authorities that are believed.
    pub(super) fn authorities(&mut self, written: &Text, path: &str) -> Option<PathBuf> {
        let (ca, pem) = self.file(written, path)?;
        if let Err(cause) = certificate::authorities(&pem) {
            let hint = "put the certificates of the authorities there in PEM";
            self.note(path, position(written.defined), cause, hint);
            return None;
        }
        Some(ca)
    }

    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    fn client_auth(&mut self, files: &file::TlsFiles, at: &str) -> Option<Option<ClientAuth>> {
        let path = format!("{at}.client_auth");
        let required = files.client_auth.as_ref().map(|text| self.choice(text, &path, words::CLIENT_AUTH));
        let Some(written) = &files.client_ca else {
            if self.is_lost(&format!("{at}.client_ca")) {
                return None;
            }
            if let Some(text) = &files.client_auth {
                let hint = "add `client_ca`, a file with the authorities that are believed, or take it away";
                let message = "no certificate of a client would be believed";
                self.note(&path, position(text.defined), message, hint);
                return None;
            }
            return Some(None);
        };
        let ca = self.authorities(written, &format!("{at}.client_ca"))?;
        let required = match required {
            Some(read) => read?,
            None => true,
        };
        Some(Some(ClientAuth { ca, required }))
    }
}
