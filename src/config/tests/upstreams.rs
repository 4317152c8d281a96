//! Tests valid and invalid keys for agents; the invalid ones in the form of [`super::broken`].

use super::read;
use crate::config::{EjectionConfig, HealthCheckConfig, UpstreamAddress, UpstreamHttpVersion};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// `(cause, file, expected problems)`
pub(super) const BROKEN: &[(&str, &str, &str)] = &[
    (
        "mappings of upstreams",
        r"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream:
      - {weight: 0}
      - {url: h:80, weight: 1001, http: 3}
      - {url: http://h/, weight: heavy}
      - {url: http://H:80/x, weight: 2}
  - {path: /b, client: ag-ui, agent: hai, upstream: {url: http://127.0.0.1:8787/, http: 2}}
  - {path: /c, client: ag-ui, agent: hai, upstream: 9001}
",
        r"
f:6:9: routes[0].upstream[0]: the key `url` is missing or empty
  hint: add the URL of the agent, such as `url: http://127.0.0.1:9001/chat`
f:6:18: routes[0].upstream[0].weight: `0` is not a weight
  hint: write a whole number from 1 to 1000; to send no requests there, remove it from the list
f:7:15: routes[0].upstream[1].url: `h:80` has no scheme
  hint: did you mean `http://h:80`?
f:7:29: routes[0].upstream[1].weight: `1001` is not a weight
  hint: write a whole number from 1 to 1000; to send no requests there, remove it from the list
f:7:41: routes[0].upstream[1].http: `3` is not a valid choice
  hint: write `auto` or `1` or `2`
f:8:34: routes[0].upstream[2].weight: `heavy` is not a weight
  hint: write a whole number from 1 to 1000; to send no requests there, remove it from the list
f:9:15: routes[0].upstream[3].url: this host and port are already used by routes[0].upstream[2].url (line 8, column 15)
  hint: list each host and port once, with a `weight` for a larger share of runs; another path takes a route of its own
f:10:59: routes[1].upstream.url: this is an address of the gateway itself, the default of listeners.data, so requests would loop
  hint: write the address and port of the agent
f:11:53: routes[2].upstream: `9001` has no scheme
  hint: did you mean `http://127.0.0.1:9001`?
",
    ),
    (
        "sockets",
        r"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream:
      - unix:agent.sock
      - unix:/run/agent.sock:chat
      - unix:/run/
      - unix:/run/agent.sock?key=1
      - unix:/run/agent.sock:/a b
      - unix:/a/very/long/way/to/a/socket/that/no/operating/system/takes/because/its/address/has/room/for/about/a/hundred/bytes
      - unix:/run/agent.sock:/a
      - unix:///run/agent.sock:/b
",
        r"
f:6:9: routes[0].upstream[0]: `unix:agent.sock` has no path of a socket
  hint: write the socket's absolute path, and after a colon the request's path: `unix:/run/agent.sock:/chat`
f:7:9: routes[0].upstream[1]: `unix:/run/agent.sock:chat` has a request path that does not begin with `:/`
  hint: write the socket's absolute path, and after a colon the request's path: `unix:/run/agent.sock:/chat`
f:8:9: routes[0].upstream[2]: `unix:/run/` has no path of a socket
  hint: write the socket's absolute path, and after a colon the request's path: `unix:/run/agent.sock:/chat`
f:9:9: routes[0].upstream[3]: `unix:/run/agent.sock?key=1` has a request path that does not begin with `:/`
  hint: write the socket's absolute path, and after a colon the request's path: `unix:/run/agent.sock:/chat`
f:10:9: routes[0].upstream[4]: `unix:/run/agent.sock:/a b` contains white space or a non-ASCII character
  hint: percent-encode it in the path or query (a space is `%20`); write a host name in its `xn--` form
f:11:9: routes[0].upstream[5]: `unix:/a/very/long/way/to/a/socket/that/no/operating/system/takes/because/its/add…` is too long for a socket's path
  hint: write a path of at most 103 bytes
f:13:9: routes[0].upstream[7]: this host and port are already used by routes[0].upstream[6] (line 12, column 9)
  hint: list each host and port once, with a `weight` for a larger share of runs; another path takes a route of its own
",
    ),
    (
        "TLS to agents",
        r"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: https://h/, upstream_tls: {ca: absent.pem, cert: absent.pem}}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://h/, upstream_tls: {server_name: h}}
  - {path: /c, client: ag-ui, agent: hai, upstream: https://h/, upstream_tls: {key: absent.pem, server_name: https://h}}
  - {path: /d, client: ag-ui, agent: hai, upstream: https://h/, upstream_tls: {insecure: true}}
",
        r"
f:2:79: routes[0].upstream_tls: `cert` is set but `key` is missing
  hint: write both: a client certificate needs its private key
f:2:84: routes[0].upstream_tls.ca: the file cannot be read: No such file or directory (os error 2)
  hint: name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration
f:3:78: routes[1].upstream_tls: no upstream of this route uses TLS
  hint: write `https://` in `upstream`, or remove `upstream_tls`
f:4:79: routes[2].upstream_tls: `key` is set but `cert` is missing
  hint: write both: a client certificate needs its private key
f:4:110: routes[2].upstream_tls.server_name: `https://h` is not a valid name for a certificate
  hint: write a host name or an IP address alone, such as `agent.internal`
f:5:80: routes[3].upstream_tls.insecure: unknown key `insecure`
  hint: use one of: `ca`, `cert`, `key`, `server_name`
",
    ),
    (
        "files of TLS to agents",
        r"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: https://h/, upstream_tls: {ca: absent.pem, cert: absent.pem}}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://h/, upstream_tls: {server_name: h}}
  - {path: /c, client: ag-ui, agent: hai, upstream: https://h/, upstream_tls: {key: absent.pem, server_name: h:443}}
",
        r"
f:2:79: routes[0].upstream_tls: `cert` is set but `key` is missing
  hint: write both: a client certificate needs its private key
f:2:84: routes[0].upstream_tls.ca: the file cannot be read: No such file or directory (os error 2)
  hint: name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration
f:3:78: routes[1].upstream_tls: no upstream of this route uses TLS
  hint: write `https://` in `upstream`, or remove `upstream_tls`
f:4:79: routes[2].upstream_tls: `key` is set but `cert` is missing
  hint: write both: a client certificate needs its private key
f:4:110: routes[2].upstream_tls.server_name: `h:443` is not a valid name for a certificate
  hint: write a host name or an IP address alone, such as `agent.internal`
",
    ),
    (
        "health and ejection",
        r"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    health: {path: healthz, interval: 0s, timeout: 2, healthy: 0, unhealthy: x}
    ejection: {failures: 0, for: 0s}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://h/, health: {path: //h/}}
",
        r"
f:6:20: routes[0].health.path: `healthz` is not a path
  hint: write a path such as `/healthz`; it is requested from each upstream
f:6:39: routes[0].health.interval: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
f:6:52: routes[0].health.timeout: `2` is not a duration
  hint: did you mean `2s`?
f:6:64: routes[0].health.healthy: `0` must be greater than zero
  hint: write a whole number of at least 1
f:6:78: routes[0].health.unhealthy: `x` is not a number
  hint: write a whole number of at least 1
f:7:26: routes[0].ejection.failures: `0` must be greater than zero
  hint: write a whole number of at least 1
f:7:34: routes[0].ejection.for: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
f:8:79: routes[1].health.path: `//h/` is not a path
  hint: write a path such as `/healthz`; it is requested from each upstream
",
    ),
];

#[test]
fn parses_every_form_of_an_upstream() {
    let text = "
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream:
      - https://one.example/chat?key=1
      - {url: http://10.0.0.2:9001/chat, weight: 3, http: 2}
      - unix:/run/agent.sock:/chat?key=2
      - {url: unix:///run/other.sock}
    health: {path: /healthz?full=1, healthy: 1}
    ejection: {failures: 7}
  - {path: /b, client: ag-ui, agent: hai, upstream: {url: https://h/, http: 1}, health: {}}
";
    let config = read(text).unwrap_or_else(|problems| panic!("{problems}"));
    let [first, second] = &*config.routes else { panic!("two routes") };
    let shown: Vec<_> = first.upstreams.iter().map(|one| (one.label(), &*one.url, &*one.path_and_query)).collect();
    assert_eq!(
        shown,
        [
            ("https://one.example:443".to_owned(), "https://one.example/chat", "/chat?key=1"),
            ("http://10.0.0.2:9001".to_owned(), "http://10.0.0.2:9001/chat", "/chat"),
            ("unix:/run/agent.sock".to_owned(), "unix:/run/agent.sock:/chat", "/chat?key=2"),
            ("unix:/run/other.sock".to_owned(), "unix:/run/other.sock:/", "/"),
        ]
    );
    let spoken: Vec<_> = first.upstreams.iter().map(|one| (one.weight.get(), one.http, one.uses_tls())).collect();
    let auto = (1, UpstreamHttpVersion::Auto, false);
    assert_eq!(spoken, [(1, UpstreamHttpVersion::Auto, true), (3, UpstreamHttpVersion::Two, false), auto, auto]);
    assert_eq!(first.upstreams[3].address, UpstreamAddress::Socket(PathBuf::from("/run/other.sock")));
    assert_eq!(first.upstreams[2].authority(), "localhost");
    let names: Vec<_> = first.upstreams.iter().map(crate::config::UpstreamConfig::has_name).collect();
    assert_eq!(names, [true, false, false, false]);
    let seconds = Duration::from_secs;
    let nonzero = |number| NonZeroUsize::new(number).expect("not zero");
    let health = |path: Option<&str>, healthy| {
        let healthy = nonzero(healthy);
        let path = path.map(str::to_owned);
        Some(HealthCheckConfig { path, interval: seconds(10), timeout: seconds(2), healthy, unhealthy: nonzero(3) })
    };
    assert_eq!(first.health, health(Some("/healthz?full=1"), 1));
    assert_eq!(second.health, health(None, 2));
    assert_eq!(first.ejection, EjectionConfig { failures: nonzero(7), duration: seconds(30) });
    assert_eq!((second.upstreams[0].http, second.ejection.failures), (UpstreamHttpVersion::One, nonzero(5)));
}
