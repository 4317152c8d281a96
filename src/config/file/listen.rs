//! Keys for listeners.

use crate::config::kind;
use crate::config::section::{Required, section};
use crate::config::text::{OneOrList, Scalar, Shorthand, Spanned, scalar_or_mapping, text};

section! {
    /// Listeners, each an IP address and a port such as `0.0.0.0:8787` or `[::1]:8787` (port 0 takes a free one), a
    /// Unix socket such as `unix:/run/diglot/data.sock`, or a mapping with one of them as its `address`.
    pub(crate) struct ListenersSpec {
        /// The data plane, which clients connect to. One listener or a list.
        pub(crate) data: Spanned<SocketListSpec> = listener("127.0.0.1:8787");
        /// The status plane: liveness, readiness and metrics only. One listener or a list; `[]` turns it off. Loopback
        /// by default; deployments use all addresses (`0.0.0.0:8788`), so that kubelet and Prometheus can connect.
        pub(crate) status: Spanned<SocketListSpec> = listener("127.0.0.1:8788");
        /// The inspector: a page that shows what both sides of a run said. Only on loopback, such as `127.0.0.1:8789`,
        /// and with a token; `diglot inspect url` prints its address. One listener or a list; off unless set.
        pub(crate) inspector: Spanned<SocketListSpec> = Spanned::without_position(OneOrList::Many(Vec::new()));
    }
}

/// One listener or a list of them.
pub(crate) type SocketListSpec = OneOrList<SocketSpec>;

scalar_or_mapping! {
    /// A listener: its address alone, or a mapping.
    pub(crate) enum SocketSpec {
        /// `127.0.0.1:8787`
        Address(kind::Address),
        /// `{address: 0.0.0.0:8443, tls: {cert: tls.crt, key: tls.key}}`
        Mapping(SocketMapping),
    }
    const FORMS: &'static str = "an address or a mapping such as {address: ADDRESS}";
    const LIST_FORMS: &'static str = "an address, a mapping such as {address: ADDRESS}, or a list of them";
}

section! {
    /// The mapping form of a listener.
    pub(crate) struct SocketMapping {
        /// An IP address and a port, or `unix:` and the absolute path of a socket. Required.
        pub(crate) address: Required<Scalar<kind::Address>>, required "the address to listen on, such as `address: 0.0.0.0:8443`";
        /// Permissions of the Unix socket, in octal.
        pub(crate) mode: Option<Scalar<kind::Mode>>;
        /// TLS settings. With them, the listener accepts only TLS.
        pub(crate) tls: Option<Spanned<ListenerTlsSpec>>;
        /// Requires a header of the PROXY protocol, version 1 or 2, at the start of each connection: `true` or `false`.
        /// Its address is used as the client's address if the connection comes from one of `trusted_proxies`.
        pub(crate) proxy_protocol: Scalar<kind::Truth> = text("false");
        /// Capture of the runs that arrive here, on routes without an `inspect` of their own: `off`, `events` or
        /// `full`. Only for `data`.
        pub(crate) inspect: Scalar<kind::Inspect> = text("off");
    }
}

section! {
    /// TLS settings of a listener. The files are reloaded when they change.
    pub(crate) struct ListenerTlsSpec {
        /// A file with the certificate in PEM, followed by the intermediate certificates. Required.
        pub(crate) cert: Required<Scalar<kind::FileName>>, required "the certificate's file, such as `cert: tls.crt`";
        /// A file with its private key in PEM. Required.
        pub(crate) key: Required<Scalar<kind::FileName>>, required "the file of its private key, such as `key: tls.key`";
        /// A file with the authorities for client certificates, in PEM. Without it, clients need no certificate.
        pub(crate) client_ca: Option<Scalar<kind::FileName>>;
        /// Handling of clients without a certificate: refused (`required`, the default) or accepted (`optional`). A
        /// certificate from another authority is always refused.
        pub(crate) client_auth: Option<Scalar<kind::ClientAuth>>;
    }
}

fn listener(address: &str) -> Spanned<SocketListSpec> {
    Spanned::without_position(OneOrList::One(SocketSpec::from_text(address)))
}
