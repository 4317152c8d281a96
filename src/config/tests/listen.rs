//! Tests keys for listeners, with valid and invalid values.

use std::path::Path;

use super::{committed_file, read};
use crate::config::inspect::CaptureMode;
use crate::config::listen::{ClientAuthConfig, ListenAddress, ListenerTlsConfig};
use crate::config::{Config, certificate};

/// `(cause, file, expected problems)`
pub(super) const BROKEN: &[(&str, &str, &str)] = &[
    (
        "Unix sockets",
        r"
listeners:
  data: [unix:data.sock, unix:///run/d.sock, unix:/run/, unix:/run/a.sock, unix:/run/a.sock]
",
        r"
f:2:10: listeners.data[0]: `unix:data.sock` has no absolute path of a socket
  hint: write `unix:` and the absolute path of a socket, such as `unix:/run/diglot/data.sock`
f:2:26: listeners.data[1]: `unix:///run/d.sock` is a URL, not an address
  hint: did you mean `unix:/run/d.sock`?
f:2:46: listeners.data[2]: `unix:/run/` has no absolute path of a socket
  hint: write `unix:` and the absolute path of a socket, such as `unix:/run/diglot/data.sock`
f:2:76: listeners.data[4]: this address is already used by listeners.data[3] (line 2, column 58)
  hint: give each listener its own port
",
    ),
    (
        "listener mappings",
        r"
listeners:
  data:
    - {tls: {}}
    - {address: 8443, mode: 0600}
    - {address: 127.0.0.1:8443, mode: 0600}
    - {address: unix:/run/a.sock, mode: rw}
    - {address: unix:/run/b.sock, mode: 0444, proxy_protocol: yes}
",
        r"
f:3:7: listeners.data[0]: the key `address` is missing or empty
  hint: add the address to listen on, such as `address: 0.0.0.0:8443`
f:3:13: listeners.data[0].tls: the key `cert` is missing or empty
  hint: add the certificate's file, such as `cert: tls.crt`
f:3:13: listeners.data[0].tls: the key `key` is missing or empty
  hint: add the file of its private key, such as `key: tls.key`
f:4:17: listeners.data[1].address: `8443` is not an address to listen on
  hint: did you mean `127.0.0.1:8443`?
f:5:39: listeners.data[2].mode: permissions apply only to Unix sockets, and this is a network address
  hint: remove it, or listen on a Unix socket
f:6:41: listeners.data[3].mode: `rw` is not an octal number
  hint: write them in octal: `0600` for the user alone, `0660` for its group too, `0666` for all users
f:7:41: listeners.data[4].mode: `0444` are permissions that do not let any user connect
  hint: write them in octal: `0600` for the user alone, `0660` for its group too, `0666` for all users
f:7:63: listeners.data[4].proxy_protocol: `yes` is not a valid choice
  hint: write `true` or `false`
",
    ),
    (
        "the PROXY protocol without trusted proxies",
        r"
listeners:
  data:
    - {address: 127.0.0.1:8080, proxy_protocol: true}
    - {address: unix:/run/a.sock, proxy_protocol: true}
",
        r"
f:3:49: listeners.data[0].proxy_protocol: no proxy is trusted, so the addresses in these headers would never be used
  hint: list the proxies in `trusted_proxies`, such as `trusted_proxies: [10.0.0.0/8]`
f:4:51: listeners.data[1].proxy_protocol: no proxy is trusted, so the addresses in these headers would never be used
  hint: add `unix` to `trusted_proxies`
",
    ),
    (
        "captures where no runs arrive",
        r"
listeners:
  status: {address: 127.0.0.1:8788, inspect: full}
",
        r"
f:2:11: listeners.status: runs arrive only at listeners in `data`: nothing is captured here
  hint: move `inspect` to a listener in `data`, or to a route
",
    ),
    (
        "TLS files",
        r"
listeners:
  data:
    - {address: 127.0.0.1:1, tls: {cert: absent.pem, key: tests/it/auth/leaf.key.pem}}
    - {address: 127.0.0.1:2, tls: {cert: Cargo.toml, key: tests/it/auth/leaf.key.pem}}
    - {address: 127.0.0.1:3, tls: {cert: tests/it/auth/leaf.pem, key: tests/it/auth/ca.pem}}
    - {address: 127.0.0.1:4, tls: {cert: tests/it/auth/ca.pem, key: tests/it/auth/leaf.key.pem}}
    - {address: 127.0.0.1:5, tls: {cert: tests/it/auth/leaf.pem, key: tests/it/auth/leaf.key.pem, client_ca: Cargo.toml}}
    - {address: 127.0.0.1:6, tls: {cert: tests/it/auth/leaf.pem, key: tests/it/auth/leaf.key.pem, client_auth: required}}
    - {address: 127.0.0.1:7, tls: {cert: tests/it/auth/leaf.pem, key: tests/it/auth/leaf.key.pem, client_ca: tests/it/auth/ca.pem, client_auth: no}}
",
        r"
f:3:42: listeners.data[0].tls.cert: the file cannot be read: No such file or directory (os error 2)
  hint: name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration
f:4:42: listeners.data[1].tls.cert: there is no certificate in this file
  hint: write the certificate in PEM, followed by the intermediate certificates that signed it
f:5:71: listeners.data[2].tls.key: there is no private key in this file
  hint: write the certificate's private key in PEM, without a password
f:6:69: listeners.data[3].tls.key: this is the key of another certificate
  hint: write the certificate's private key in PEM, without a password
f:7:110: listeners.data[4].tls.client_ca: there is no certificate in this file
  hint: write the certificates of the authorities in PEM
f:8:112: listeners.data[5].tls.client_auth: no authority is trusted, so every client certificate would be rejected
  hint: add `client_ca`, a file with the trusted authorities, or remove this key
f:9:145: listeners.data[6].tls.client_auth: `no` is not a valid choice
  hint: write `required` or `optional`
",
    ),
    (
        "an upstream that is a TLS listener of the gateway",
        r#"
listeners: {data: {address: 127.0.0.1:8443, tls: {cert: tests/it/auth/leaf.pem, key: tests/it/auth/leaf.key.pem}}}
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: ["http://127.0.0.1:8443/", "https://localhost:8443/"]}
"#,
        r"
f:3:80: routes[0].upstream[1]: this is an address of the gateway itself, listeners.data (line 1, column 19), so requests would loop
  hint: write the address and port of the agent
",
    ),
    (
        "limits on connections",
        r"
limits: {connections: 0, connections_per_address: many, idle_timeout: 0s}
",
        r"
f:1:23: limits.connections: `0` must be greater than zero
  hint: write a whole number of at least 1
f:1:51: limits.connections_per_address: `many` is not a number
  hint: write a whole number of at least 1
f:1:71: limits.idle_timeout: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
",
    ),
];

const ROUTE: &str = "routes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://h/\"}]\n";

fn valid_config(text: &str) -> Config {
    read(&format!("{text}\n{ROUTE}")).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn reads_listener_addresses_and_options() {
    let config = valid_config(
        r#"
trusted_proxies: [10.0.0.0/8, unix]
limits: {connections: 10, connections_per_address: 2, idle_timeout: 5s}
listeners:
  data:
    - 127.0.0.1:1
    - {address: unix:/run/a.sock, mode: "0600", proxy_protocol: true}
    - unix:/run/b.sock
    - address: "[::]:2"
      proxy_protocol: true
      tls: {cert: tests/it/auth/leaf.pem, key: tests/it/auth/leaf.key.pem, client_ca: tests/it/auth/ca.pem}
  status: {address: 127.0.0.1:3, tls: {cert: tests/it/auth/leaf.pem, key: tests/it/auth/leaf.key.pem}}
"#,
    );
    let places: Vec<String> = config.data.iter().map(|one| one.address.to_string()).collect();
    assert_eq!(places, ["127.0.0.1:1", "unix:/run/a.sock", "unix:/run/b.sock", "[::]:2"]);
    let modes = config.data.iter().filter_map(|one| match one.address {
        ListenAddress::Unix { mode, .. } => Some(mode),
        ListenAddress::Tcp(_) => None,
    });
    assert_eq!(modes.collect::<Vec<_>>(), [0o600, 0o660]);
    let proxied: Vec<bool> = config.data.iter().map(|one| one.proxy_protocol).collect();
    assert_eq!(proxied, [false, true, false, true]);
    let file = |name: &str| Path::new("tests/it/auth").join(name);
    let tls = |client| ListenerTlsConfig { cert: file("leaf.pem"), key: file("leaf.key.pem"), client };
    let client = ClientAuthConfig { ca: file("ca.pem"), required: true };
    assert_eq!((&config.data[3].tls, &config.status[0].tls), (&Some(tls(Some(client))), &Some(tls(None))));
    assert!(config.trusted_proxies.unix && config.trusted_proxies.networks.len() == 1);
    let limits = config.limits;
    assert_eq!(
        (limits.connections.map(Into::into), limits.connections_per_address.map(Into::into)),
        (Some(10), Some(2))
    );
    assert_eq!(limits.idle_timeout.as_secs(), 5);
}

/// The expected times are from `openssl x509 -noout -enddate`.
#[test]
fn takes_the_earliest_expiry_of_a_certificate_chain() {
    let file = |name: &str| std::fs::read(committed_file("examples/tls").join(name)).expect(name);
    let (cert, key) = (file("tls.crt"), file("tls.key"));
    let ends = |cert: &[u8]| certificate::parse_pair(cert, &key).expect("a pair").not_after;
    assert_eq!(ends(&cert), 4948919655);
    let other =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/auth/ca.pem")).expect("an authority");
    assert_eq!(ends(&[cert, other].concat()), 4948908891);
}

#[test]
fn a_listener_captures_runs_of_routes_without_a_mode() {
    let config =
        read(&format!("listeners: {{data: {{address: 127.0.0.1:1, inspect: full}}}}\n{ROUTE}")).expect("valid");
    assert_eq!(config.data[0].inspect, CaptureMode::Full);
    assert!(config.routes.iter().all(|route| route.inspect.is_none()));
}
