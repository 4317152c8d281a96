//! Operators' mistakes: the cause, the file, and the reported problems without excerpts.
//!
//! [`super::ROUTE`] is appended to a file without `routes`. A file's leading newline is removed, so that its lines can
//! be counted from 1.

/// `(cause, file, expected problems)`
pub(super) const BROKEN: &[(&str, &str, &str)] = &[
    (
        "no route",
        r"
keep_alive: 1s
routes: []
",
        r#"
f:2:9: routes: there is no route, so every request would be rejected
  hint: add one: `routes: [{path: /chat, client: ag-ui, agent: hai, upstream: "http://127.0.0.1:9001/"}]`
"#,
    ),
    (
        "routes without a value",
        r"
routes:
",
        r"
f:1:7: routes: the value is missing
  hint: write a value or remove the key
",
    ),
    (
        "a route that is not a list entry",
        r"
routes:
  path: /a
",
        r"
f:2:3: routes: expected a list, found a mapping
  hint: begin each entry with `- `, indented below the key
",
    ),
    (
        "a list at the top",
        r"
- routes: []
",
        r"
f:1:1: expected a mapping, found a list
  hint: begin with a key such as `routes:`, without indentation
",
    ),
    (
        "a key with its letters swapped",
        r"
lsiteners: {}
",
        r"
f:1:1: lsiteners: unknown key `lsiteners`
  hint: did you mean `listeners`?
",
    ),
    (
        "a route's key with its letters swapped",
        r"
routes:
  - path: /a
    cleint: hai
",
        r"
f:2:5: routes[0]: the key `agent` is missing or empty
  hint: add the dialect of the agent, such as `agent: hai`
f:2:5: routes[0]: the key `upstream` is missing or empty
  hint: add the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`
f:3:5: routes[0].cleint: unknown key `cleint`
  hint: did you mean `client`?
",
    ),
    (
        "an unknown option of a side",
        r"
routes:
  - path: /a
    client: {dialect: hai, contents: blocks}
",
        r"
f:2:5: routes[0]: the key `agent` is missing or empty
  hint: add the dialect of the agent, such as `agent: hai`
f:2:5: routes[0]: the key `upstream` is missing or empty
  hint: add the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`
f:3:28: routes[0].client.contents: unknown key `contents`
  hint: did you mean `content`?
",
    ),
    (
        "a key in camelCase",
        r"
keepAlive: 1s
",
        r"
f:1:1: keepAlive: unknown key `keepAlive`
  hint: did you mean `keep_alive`?
",
    ),
    (
        "an unknown key that resembles no other",
        r"
routes:
  - path: /a
    timeouts: {total: 5s}
",
        r"
f:2:5: routes[0]: the key `client` is missing or empty
  hint: add the dialect of the clients, such as `client: ag-ui`
f:2:5: routes[0]: the key `agent` is missing or empty
  hint: add the dialect of the agent, such as `agent: hai`
f:2:5: routes[0]: the key `upstream` is missing or empty
  hint: add the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`
f:3:16: routes[0].timeouts.total: unknown key `total`
  hint: use one of: `connect`, `first_byte`, `first_event`, `idle`, `ping_only`, `reader`
",
    ),
    (
        "a section without a value",
        r"
limits:
keep_alive: 1s
",
        r"
f:1:7: limits: the value is missing
  hint: write a value or remove the key
",
    ),
    (
        "a key without a value",
        r"
keep_alive:
",
        r"
f:1:11: keep_alive: the value is missing
  hint: write a value or remove the key
",
    ),
    (
        "a list entry without a value",
        r"
routes:
  -
",
        r"
f:2:4: routes[0]: the value is missing
  hint: write a value after the `-`, or remove the `-`
",
    ),
    (
        "a list for one value",
        r"
keep_alive: [15s]
",
        r"
f:1:13: keep_alive: expected a single value, found a list
  hint: write one value after the key; quote a text that begins with `{` or `[`
",
    ),
    (
        "a mapping for an address",
        r"
listeners:
  data:
    host: 127.0.0.1
",
        r"
f:3:5: listeners.data.host: unknown key `host`
  hint: use one of: `address`, `mode`, `tls`, `proxy_protocol`, `inspect`
f:3:5: listeners.data: the key `address` is missing or empty
  hint: add the address to listen on, such as `address: 0.0.0.0:8443`
",
    ),
    (
        "an address without a value",
        r"
listeners:
  data:
",
        r"
f:2:7: listeners.data: the value is missing
  hint: write a value or remove the key
",
    ),
    (
        "a word for an address",
        r"
listeners:
  status: no
",
        r"
f:2:11: listeners.status: `no` is not an address to listen on
  hint: write an IP address and a port, such as `127.0.0.1:8787` for this host alone, `0.0.0.0:8787` for all of its IPv4 addresses, `[::]:8787` for IPv6; names are not looked up
",
    ),
    (
        "a list for a side",
        r"
routes:
  - client: [hai]
",
        r"
f:2:5: routes[0]: the key `path` is missing or empty
  hint: add the path that clients call, such as `path: /agents/chat`
f:2:5: routes[0]: the key `agent` is missing or empty
  hint: add the dialect of the agent, such as `agent: hai`
f:2:5: routes[0]: the key `upstream` is missing or empty
  hint: add the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`
f:2:13: routes[0].client: expected the name of a dialect or a mapping such as {dialect: NAME}, found a list
",
    ),
    (
        "a key written twice",
        r"
keep_alive: 1s
drain_timeout: 3s
keep_alive: 2s
",
        r"
f:3:1: keep_alive: the key `keep_alive` is defined twice; first on line 1
  hint: keep one of the two, or merge their values
",
    ),
    (
        "a quote that is not closed",
        r"
routes:
  - path: '/a
    client: hai
",
        r"
f:2:11: this quote is not closed on its line
  hint: close it on this line; a `'` inside single quotes is `''`
",
    ),
    (
        "a colon in a plain value",
        r"
keep_alive: 1s: 2s
",
        r"
f:1:15: this value has a `: `, so that YAML takes it for a key
  hint: put the value in quotes, or write the second key in a line of its own
",
    ),
    (
        "a tab",
        "\nlimits:\n\tframe: 1MiB\n",
        r"
f:2:2: this is not YAML: tabs disallowed within this context (block indentation)
  hint: indent with spaces; YAML does not allow tabs
",
    ),
    (
        "a tab further down",
        "\nlimits:\n  frame: 1MiB\n\trequest_body: 1MiB\n",
        r"
f:3:1: this is not YAML: while scanning a plain scalar, found a tab
  hint: indent with spaces; YAML does not allow tabs
",
    ),
    (
        "uneven indentation",
        r"
limits:
  frame: 1MiB
 request_body: 1MiB
",
        r"
f:3:2: this line is indented by 1 space, as none of the keys above
  hint: indent it by 2 spaces, as the keys above
",
    ),
    (
        "an unquoted variable between braces",
        r"
routes:
  - {name: chat, path: /a, client: ag-ui, agent: hai, upstream: ${AGENT}}
",
        r##"
f:2:66: this is not YAML: while parsing a flow mapping, did not find expected ',' or '}'
  hint: between `{` and `}`, quote a value that contains `{`, `}` or `: `, such as "${NAME}" or "/runs/{id}", and put a comma between the keys
"##,
    ),
    (
        "a reserved character",
        r"
keep_alive: @x
",
        r"
f:1:13: this is not YAML: unexpected character: `@'
  hint: put the value in quotes
",
    ),
    (
        "a bracket that is not closed",
        r"
routes: [
",
        r"
f:1:9: this is not YAML: unclosed bracket '['
  hint: close it, or quote a text that begins with `[` or `{`
",
    ),
    (
        "an alias without an anchor",
        r"
keep_alive: *soon
",
        r"
f:1:13: an alias (`*name`) without an anchor (`&name`) above it
  hint: define the anchor, or quote a value that begins with `*`
",
    ),
    (
        "two documents",
        r"
keep_alive: 1s
---
keep_alive: 2s
",
        r"
f:3:1: a second YAML document begins here
  hint: keep one document in the file: remove the line `---`
",
    ),
    (
        "a byte order mark, and CRLF",
        "\n\u{feff}keep_alive: 1\ndrain_timeout: 1\n",
        r"
f:1:13: keep_alive: `1` is not a duration
  hint: did you mean `1s`?
f:2:16: drain_timeout: `1` is not a duration
  hint: did you mean `1s`?
",
    ),
    (
        "an empty route",
        r"
routes:
  - {}
",
        r"
f:2:5: routes[0]: the key `path` is missing or empty
  hint: add the path that clients call, such as `path: /agents/chat`
f:2:5: routes[0]: the key `client` is missing or empty
  hint: add the dialect of the clients, such as `client: ag-ui`
f:2:5: routes[0]: the key `agent` is missing or empty
  hint: add the dialect of the agent, such as `agent: hai`
f:2:5: routes[0]: the key `upstream` is missing or empty
  hint: add the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`
",
    ),
    (
        "a side without a dialect, and an unknown dialect",
        r"
routes:
  - path: /a
    client: {content: blocks}
    agent: hia
    upstream: http://h/
",
        r"
f:3:13: routes[0].client: the key `dialect` is missing or empty
  hint: add the dialect, such as `dialect: hai`
f:4:12: routes[0].agent: `hia` is not a dialect
  hint: did you mean `hai`?
",
    ),
    (
        "a misspelled `auto`, which has no mapping and no variants",
        r"
dialects: [{name: acme, extends: autoo}]
routes:
  - {path: /a, client: autoo, agent: {dialect: autoo}, upstream: http://h/}
",
        r"
f:1:34: dialects[0].extends: `autoo` is not a dialect
  hint: use one of: `ag-ui`, `ag-ui-0`, `hai`, `ag-ui-snake`, `cloudbase`, `social-app`
f:3:24: routes[0].client: `autoo` is not a dialect
  hint: did you mean `auto`?
f:3:48: routes[0].agent.dialect: `autoo` is not a dialect
  hint: use one of: `ag-ui`, `ag-ui-0`, `hai`, `ag-ui-snake`, `cloudbase`, `social-app`; a dialect that a file describes needs the file: `dialect_files: [FILE.yaml]`
",
    ),
    (
        "an option that the dialect does not have",
        r"
routes:
  - {path: /a, client: ag-ui, agent: {dialect: ag-ui, content: blocks}, upstream: http://h/}
",
        r"
f:2:64: routes[0].agent.content: the dialect `ag-ui` has no option `content`
  hint: remove it; it applies only to `hai`
",
    ),
    (
        "an invalid tool name, and a dialect without that option",
        r#"
routes:
  - {path: /a, client: {dialect: hai, interrupt_tool: "a\tb"}, agent: {dialect: ag-ui, interrupt_tool: x}, upstream: http://h/}
"#,
        r"
f:2:55: routes[0].client.interrupt_tool: `a b` is not a valid tool name
  hint: write the name that the client gives the tool, at most 64 bytes on one line
f:2:104: routes[0].agent.interrupt_tool: the dialect `ag-ui` has no option `interrupt_tool`
  hint: remove it; it applies only to `ag-ui-0` or `hai` or `ag-ui-snake` or `cloudbase`
",
    ),
    (
        "an option with an invalid choice",
        r"
routes:
  - {path: /a, client: ag-ui, agent: {dialect: hai, content: block, fields: Snake}, upstream: http://h/}
",
        r"
f:2:62: routes[0].agent.content: `block` is not a valid choice
  hint: write `string` or `blocks`
f:2:77: routes[0].agent.fields: `Snake` is not a valid choice
  hint: write `camel` or `snake`
",
    ),
    (
        "durations",
        r"
keep_alive: 15
drain_timeout: 1m30s
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    timeouts: {connect: 0s, first_byte: 2 minutes, idle: 1000h}
",
        r"
f:1:13: keep_alive: `15` is not a duration
  hint: did you mean `15s`?
f:2:16: drain_timeout: `1m30s` is not a duration
  hint: write one whole number and one of ms, s, m, h: `500ms`, `15s`, `5m`, `1h`
f:8:25: routes[0].timeouts.connect: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
f:8:41: routes[0].timeouts.first_byte: `2 minutes` is not a duration
  hint: did you mean `2m`?
f:8:58: routes[0].timeouts.idle: `1000h` is longer than 30 days
  hint: write at most `720h`
",
    ),
    (
        "sizes",
        r"
limits:
  frame: 8MB
  request_body: 0
  client_buffer: 99999999999GiB
",
        r"
f:2:10: limits.frame: `8MB` is not a size
  hint: did you mean `8MiB`?
f:3:17: limits.request_body: `0` must be greater than zero
  hint: write a size of at least one byte
f:4:18: limits.client_buffer: `99999999999GiB` is larger than any possible memory
  hint: write a whole number of bytes, alone or with B, KiB, MiB or GiB: `65536`, `64KiB`, `8MiB`
",
    ),
    (
        "a fraction, and an empty value",
        r#"
limits: {frame: 1.5MiB, client_buffer: ""}
"#,
        r"
f:1:17: limits.frame: `1.5MiB` is not a size
  hint: write a whole number of bytes, alone or with B, KiB, MiB or GiB: `65536`, `64KiB`, `8MiB`
f:1:40: limits.client_buffer: the value is empty
  hint: write a value or remove the key
",
    ),
    (
        "addresses",
        r#"
listeners:
  data: [8787, localhost:80, 10.0.0.1, "::1", diglot.local:80, "127.0.0.1:99999"]
  status: "*:80"
"#,
        r"
f:2:10: listeners.data[0]: `8787` is not an address to listen on
  hint: did you mean `127.0.0.1:8787`?
f:2:16: listeners.data[1]: `localhost:80` is not an address to listen on
  hint: did you mean `127.0.0.1:80`?
f:2:30: listeners.data[2]: `10.0.0.1` has no port
  hint: did you mean `10.0.0.1:8787`?
f:2:40: listeners.data[3]: `::1` is not an address with a port
  hint: write IPv6 in brackets, then the port: `[::1]:8787`
f:2:47: listeners.data[4]: `diglot.local:80` is not an address to listen on
  hint: write an IP address and a port, such as `127.0.0.1:8787` for this host alone, `0.0.0.0:8787` for all of its IPv4 addresses, `[::]:8787` for IPv6; names are not looked up
f:2:64: listeners.data[5]: `127.0.0.1:99999` is not an address to listen on
  hint: write an IP address and a port, such as `127.0.0.1:8787` for this host alone, `0.0.0.0:8787` for all of its IPv4 addresses, `[::]:8787` for IPv6; names are not looked up
f:3:11: listeners.status: `*:80` is not an address to listen on
  hint: did you mean `0.0.0.0:80`?
",
    ),
    (
        "a bare port",
        r"
listeners: {data: 8787}
",
        r"
f:1:19: listeners.data: `8787` is not an address to listen on
  hint: did you mean `127.0.0.1:8787`?
",
    ),
    (
        "a data plane without an address",
        r"
listeners: {data: []}
",
        r"
f:1:19: listeners.data: no address to listen on is configured
  hint: write an address such as `127.0.0.1:8787`, or remove the key to use the default
",
    ),
    (
        "an address that another listener has by default",
        r"
listeners:
  data: 127.0.0.1:8788
",
        r"
f:2:9: listeners.data: this address is already used by the default of listeners.status
  hint: give each listener its own port
",
    ),
    (
        "a wildcard over another listener",
        r"
listeners:
  data: 0.0.0.0:80
  status: 127.0.0.1:80
",
        r"
f:3:11: listeners.status: this address is already used by listeners.data (line 2, column 9)
  hint: give each listener its own port
",
    ),
    (
        "an address twice in one list",
        r"
listeners:
  data: [127.0.0.1:80, 127.0.0.1:80]
",
        r"
f:2:24: listeners.data[1]: this address is already used by listeners.data[0] (line 2, column 10)
  hint: give each listener its own port
",
    ),
    (
        "an upstream that is the gateway itself",
        r#"
listeners: {data: [0.0.0.0:80, "127.0.0.1:8787", "[::1]:8787"]}
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: [http://localhost:8787/a, "http://[::1]:8787/", http://127.0.0.9/, http://0.0.0.0:8787/]
  - {path: /b, client: ag-ui, agent: hai, upstream: ["https://localhost:8787/", "http://127.0.0.2:8787/", "http://[::1]/"]}
"#,
        r"
f:6:16: routes[0].upstream[0]: this is an address of the gateway itself, listeners.data[1] (line 1, column 32), so requests would loop
  hint: write the address and port of the agent
f:6:41: routes[0].upstream[1]: this is an address of the gateway itself, listeners.data[2] (line 1, column 50), so requests would loop
  hint: write the address and port of the agent
f:6:63: routes[0].upstream[2]: this is an address of the gateway itself, listeners.data[0] (line 1, column 20), so requests would loop
  hint: write the address and port of the agent
f:6:82: routes[0].upstream[3]: this is an address of the gateway itself, listeners.data[1] (line 1, column 32), so requests would loop
  hint: write the address and port of the agent
",
    ),
    (
        "an upstream in IPv4 that is the gateway on all addresses of IPv6",
        r#"
listeners: {data: "[::]:80"}
routes: [{path: /a, client: ag-ui, agent: hai, upstream: http://127.0.0.1/a}]
"#,
        r"
f:2:58: routes[0].upstream: this is an address of the gateway itself, listeners.data (line 1, column 19), so requests would loop
  hint: write the address and port of the agent
",
    ),
    (
        "an upstream that is the gateway's default address",
        r"
routes: [{path: /a, client: ag-ui, agent: hai, upstream: http://127.0.0.1:8787/a}]
",
        r"
f:1:58: routes[0].upstream: this is an address of the gateway itself, the default of listeners.data, so requests would loop
  hint: write the address and port of the agent
",
    ),
    (
        "two routes of one path and one name",
        r"
routes:
  - {name: x, path: /a, client: ag-ui, agent: hai, upstream: http://h/}
  - {name: x, path: /a, client: ag-ui, agent: hai, upstream: http://h/}
",
        r"
f:3:12: routes[1].name: this name is already used by routes[0].name (line 2, column 12)
  hint: give each route a unique name; the default is its path
f:3:21: routes[1].path: this path is already used by routes[0].path (line 2, column 21)
  hint: use each path in one route: change one of the two, or remove one route
",
    ),
    (
        "one path twice without names",
        r"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/}
  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/}
",
        r"
f:3:12: routes[1].path: this path is already used by routes[0].path (line 2, column 12)
  hint: use each path in one route: change one of the two, or remove one route
",
    ),
    (
        "a name that is another route's path",
        r"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/}
  - {name: /a, path: /b, client: ag-ui, agent: hai, upstream: http://h/}
",
        r"
f:3:12: routes[1].name: this name is already used by routes[0].path (line 2, column 12)
  hint: give each route a unique name; the default is its path
",
    ),
    (
        "upstreams",
        r"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream:
      - h:80
      - ftp://h/
      - http://h/#x
      - http://h:0/
      - http://h:80x/
      - http:///x
      - http://[::g]/
      - http://h/a b
      - http://*/
      - /chat
",
        r"
f:6:9: routes[0].upstream[0]: `h:80` has no scheme
  hint: did you mean `http://h:80`?
f:7:9: routes[0].upstream[1]: `ftp://h/` has a scheme other than `http` and `https`
  hint: write a URL such as `http://127.0.0.1:9001/chat`
f:8:9: routes[0].upstream[2]: `http://h/#x` has a fragment, which is never sent
  hint: remove `#` and everything after it
f:9:9: routes[0].upstream[3]: `http://h:0/` has a port outside 1 to 65535
  hint: correct the port, or leave out `:`
f:10:9: routes[0].upstream[4]: `http://h:80x/` has a port outside 1 to 65535
  hint: correct the port, or leave out `:`
f:11:9: routes[0].upstream[5]: `http:///x` has no host
  hint: write a host name or an IP address, IPv6 in brackets: `http://[::1]:9001/`
f:12:9: routes[0].upstream[6]: `http://[::g]/` has an IPv6 address that cannot be read
  hint: write a host name or an IP address, IPv6 in brackets: `http://[::1]:9001/`
f:13:9: routes[0].upstream[7]: `http://h/a b` contains white space or a non-ASCII character
  hint: percent-encode it in the path or query (a space is `%20`); write a host name in its `xn--` form
f:14:9: routes[0].upstream[8]: `http://*/` has an invalid host name
  hint: write a host name or an IP address, IPv6 in brackets: `http://[::1]:9001/`
f:15:9: routes[0].upstream[9]: `/chat` has no scheme
  hint: write a URL such as `http://127.0.0.1:9001/chat`
",
    ),
    (
        "a password in a URL",
        r#"
routes:
  - {path: /a, client: ag-ui, agent: hia, upstream: "http://me:hunter2@h/"}
"#,
        r"
f:2:38: routes[0].agent: `hia` is not a dialect
  hint: did you mean `hai`?
f:2:53: routes[0].upstream: the value contains a user name or password
  hint: remove it from the URL: everyone who can read the configuration or a log would see it
",
    ),
    (
        "a password that makes the URL unreadable",
        r"
routes:
  - path: /@me/
    client: ag-ui
    agent: hai
    upstream: http://me:hunter2/@h/
",
        r"
f:2:11: routes[0].path: `/@me/` ends with `/`
  hint: did you mean `/@me`?
f:5:15: routes[0].upstream: the value has a port outside 1 to 65535
  hint: correct the port, or leave out `:`
",
    ),
    (
        "a password in a URL without a scheme",
        r#"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: "me:hunter2@h/"}
"#,
        r"
f:2:53: routes[0].upstream: the value has no scheme
  hint: write a URL such as `http://127.0.0.1:9001/chat`
",
    ),
    (
        "one upstream twice",
        r"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: [http://h, HTTP://H:80/]}
",
        r"
f:2:64: routes[0].upstream[1]: this host and port are already used by routes[0].upstream[0] (line 2, column 54)
  hint: list each host and port once, with a `weight` for a larger share of runs; another path takes a route of its own
",
    ),
    (
        "two paths at one host and port",
        r"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream:
      - http://h:8080/one
      - http://h:8081/one
      - https://H:8080/two
",
        r"
f:8:9: routes[0].upstream[2]: this host and port are already used by routes[0].upstream[0] (line 6, column 9)
  hint: list each host and port once, with a `weight` for a larger share of runs; another path takes a route of its own
",
    ),
    (
        "no upstream",
        r"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: []}
",
        r"
f:2:53: routes[0].upstream: there is no upstream to send requests to
  hint: write at least one URL, such as `http://127.0.0.1:9001/chat`
",
    ),
    (
        "paths",
        r"
routes:
  - {path: a, client: ag-ui, agent: hai, upstream: http://h}
  - {path: /a/, client: ag-ui, agent: hai, upstream: http://h}
  - {path: //a, client: ag-ui, agent: hai, upstream: http://h}
  - {path: /a/../b, client: ag-ui, agent: hai, upstream: http://h}
  - {path: '/a/{id}', client: ag-ui, agent: hai, upstream: http://h}
  - {path: /a%20b, client: ag-ui, agent: hai, upstream: http://h}
  - {path: /a?b, client: ag-ui, agent: hai, upstream: http://h}
  - {path: /聊天, client: ag-ui, agent: hai, upstream: http://h}
  - {path: 'http://h/a', client: ag-ui, agent: hai, upstream: http://h}
",
        r"
f:2:12: routes[0].path: `a` does not begin with `/`
  hint: did you mean `/a`?
f:3:12: routes[1].path: `/a/` ends with `/`
  hint: did you mean `/a`?
f:4:12: routes[2].path: `//a` has an empty segment (`//`)
  hint: did you mean `/a`?
f:5:12: routes[3].path: `/a/../b` has a `.` or `..` segment
  hint: write the resolved path, as clients send it
f:6:12: routes[4].path: `/a/{id}` looks like a pattern
  hint: a route matches one path exactly; write a separate route for each path
f:7:12: routes[5].path: `/a%20b` contains `%`, `;` or `\`, which servers interpret differently
  hint: write a path of letters, digits and `-._~`
f:8:12: routes[6].path: `/a?b` has a query or a fragment
  hint: write only the path; the query of a request does not affect routing
f:9:12: routes[7].path: `/聊天` contains a character that is not allowed in a request line
  hint: write a path of letters (a-z), digits and `-._~`
f:10:12: routes[8].path: `http://h/a` is a URL, not a path
  hint: write the path alone, such as `/agents/chat`
",
    ),
    (
        "an invalid guard mode",
        r"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: http://h, guard: Strict}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://h, guard: true}
",
        r"
f:2:70: routes[0].guard: `Strict` is not a valid choice
  hint: write `repair` or `strict` or `report`
f:3:70: routes[1].guard: `true` is not a valid choice
  hint: write `repair` or `strict` or `report`
",
    ),
    (
        "a name with a tab",
        r#"
routes:
  - {path: /, name: "a\tb", client: ag-ui, agent: hai, upstream: http://h}
"#,
        r"
f:2:21: routes[0].name: `a b` contains a control character
  hint: write the name on one line, without tabs
",
    ),
    (
        "a mistake in an aliased value",
        r"
routes:
  - &chat {path: /a, client: ag-ui, agent: hai, upstream: http://h/}
  - {<<: *chat, agent: hia}
",
        r"
f:3:10: routes[1].path: this path is already used by routes[0].path (line 2, column 18)
  hint: use each path in one route: change one of the two, or remove one route
f:3:24: routes[1].agent: `hia` is not a dialect
  hint: did you mean `hai`?
",
    ),
    (
        "missing and empty variables",
        r#"
keep_alive: ${KEEP_ALIVE}
drain_timeout: "${EMPTY}"
"#,
        r"
f:1:13: keep_alive: the environment variable `KEEP_ALIVE` is not set
  hint: set it where Diglot is started, or give a default: `${KEEP_ALIVE:-default}`
f:2:16: drain_timeout: `${EMPTY}`, with its variables expanded, is empty
  hint: give the variable a value, or a default: `${NAME:-default}`
",
    ),
    (
        "invalid variable references",
        r#"
keep_alive: ${KEEP_ALIVE
drain_timeout: "${a b}"
"#,
        r"
f:1:13: keep_alive: `${` has no closing `}`
  hint: write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`
f:2:16: drain_timeout: `${a b}` is not a valid variable name
  hint: write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`
",
    ),
    (
        "wrong values from variables",
        r#"
keep_alive: ${SECRET}
limits: {frame: "${SECRET}"}
listeners: {data: "${SECRET}:80"}
routes:
  - name: x${SECRET}
    path: ${SECRET}
    client: ${SECRET}
    agent: {dialect: hai, content: "${SECRET}"}
    upstream: ["${SECRET}", "http://${SECRET}@h/", "http://${SECRET}/", "http://${SECRET}/"]
"#,
        r"
f:1:13: keep_alive: `${SECRET}`, with its variables expanded, is not a duration
  hint: write one whole number and one of ms, s, m, h: `500ms`, `15s`, `5m`, `1h`
f:2:17: limits.frame: `${SECRET}`, with its variables expanded, is not a size
  hint: write a whole number of bytes, alone or with B, KiB, MiB or GiB: `65536`, `64KiB`, `8MiB`
f:3:19: listeners.data: `${SECRET}:80`, with its variables expanded, is not an address to listen on
  hint: write an IP address and a port, such as `127.0.0.1:8787` for this host alone, `0.0.0.0:8787` for all of its IPv4 addresses, `[::]:8787` for IPv6; names are not looked up
f:6:11: routes[0].path: `${SECRET}`, with its variables expanded, does not begin with `/`
  hint: write a path such as `/agents/chat`
f:7:13: routes[0].client: `${SECRET}`, with its variables expanded, is not a dialect
  hint: use one of: `ag-ui`, `ag-ui-0`, `hai`, `ag-ui-snake`, `cloudbase`, `social-app`, `auto`
f:8:36: routes[0].agent.content: `${SECRET}`, with its variables expanded, is not a valid choice
  hint: write `string` or `blocks`
f:9:16: routes[0].upstream[0]: `${SECRET}`, with its variables expanded, has no scheme
  hint: write a URL such as `http://127.0.0.1:9001/chat`
f:9:29: routes[0].upstream[1]: the value contains a user name or password
  hint: remove it from the URL: everyone who can read the configuration or a log would see it
f:9:73: routes[0].upstream[3]: this host and port are already used by routes[0].upstream[2] (line 9, column 52)
  hint: list each host and port once, with a `weight` for a larger share of runs; another path takes a route of its own
",
    ),
    (
        "custom dialects",
        r#"
dialects:
  - extends: hia
  - {name: Acme!, extends: hai}
  - {name: hai, extends: ag-ui}
  - name: acme
    extends: hai
    events: {BUSINES_DATA_START: A, RUN_STARTED: B, RUN_ERROR: B, STEP_STARTED: RAW}
    fields: {thread_id: a, runId: type, delta: x, stepName: x}
    roles: {king: a}
    values: {cod: {a: b}}
    strip: [""]
"#,
        r"
f:2:5: dialects[0]: the key `name` is missing or empty
  hint: add the name that routes use, such as `name: acme-chat`
f:2:14: dialects[0].extends: `hia` is not a dialect
  hint: did you mean `hai`?
f:3:12: dialects[1].name: `Acme!` is not a valid dialect name
  hint: write at most 32 lower-case letters, digits and hyphens, such as `acme-chat`
f:4:12: dialects[2].name: the dialect `hai` already exists
  hint: choose another name
f:7:34: dialects[3].events.BUSINES_DATA_START: the dialect `hai` has no event `BUSINES_DATA_START`
  hint: did you mean `BUSINESS_DATA_START`?
f:7:50: dialects[3].events.RUN_STARTED: `B` is already the type of another event
  hint: give each event a unique type
f:7:81: dialects[3].events.STEP_STARTED: `RAW` is already the type of another event
  hint: give each event a unique type
f:8:25: dialects[3].fields.thread_id: AG-UI has no member `thread_id`
  hint: did you mean `threadId`?
f:8:35: dialects[3].fields.runId: `type` cannot be used as a name here
  hint: write a name other than `type`, without control characters
f:8:61: dialects[3].fields.stepName: `x` is already the name of another member
  hint: give each member a unique name
f:9:19: dialects[3].roles.king: AG-UI has no role `king`
  hint: write `developer` or `system` or `assistant` or `user` or `tool` or `activity` or `reasoning`
f:10:23: dialects[3].values.cod: AG-UI has no member `cod`
  hint: did you mean `code`?
f:11:13: dialects[3].strip[0]: the value is empty
  hint: write a value or remove the key
",
    ),
    (
        "custom dialects that rename events which other events stand for",
        r#"
dialects:
  - name: acme
    extends: cloudbase
    events:
      TEXT_MESSAGE_CHUNK: message.delta
  - {name: acme-2, extends: ag-ui-0, events: {ACTIVITY_DELTA: patch, TEXT_MESSAGE_CHUNK: message.delta}}
  - {name: acme-3, extends: ag-ui, events: {TEXT_MESSAGE_CHUNK: message.delta}}
"#,
        r"
f:5:27: dialects[0].events.TEXT_MESSAGE_CHUNK: `cloudbase` has no event of its own for `TEXT_MESSAGE_CHUNK`, so that this name would never be used
  hint: extend `ag-ui`, which has it, rename the events that stand for it, or describe the agent in a dialect file (`dialect_files`)
f:6:63: dialects[1].events.ACTIVITY_DELTA: `ag-ui-0` has no event of its own for `ACTIVITY_DELTA`, so that this name would never be used
  hint: extend `ag-ui`, which has it, rename the events that stand for it, or describe the agent in a dialect file (`dialect_files`)
",
    ),
    (
        "custom dialects whose names or members are ambiguous",
        r#"
dialects:
  - {name: auto, extends: hai}
  - {name: diglot, extends: hai}
  - name: acme
    extends: ag-ui
    fields: {threadId: runId, messageId: extra, stepName: timestamp}
    roles: {user: a, tool: a, system: assistant}
    strip: [delta, x]
  - {name: acme-2, extends: ag-ui, fields: {threadId: runId, runId: threadId}}
routes:
  - {path: /a, client: acme, agent: {dialect: auto}, upstream: http://h/}
"#,
        r"
f:2:12: dialects[0].name: `auto` is reserved
  hint: choose another name, such as `acme-chat`
f:3:12: dialects[1].name: `diglot` is reserved
  hint: choose another name, such as `acme-chat`
f:6:24: dialects[2].fields.threadId: the member `runId` of RUN_STARTED is already called `runId`
  hint: give each member of an event a unique name
f:6:42: dialects[2].fields.messageId: `extra` is reserved: Diglot stores values there that a dialect cannot express
  hint: choose another name for the member, and do not rename `metadata`
f:6:59: dialects[2].fields.stepName: the member `timestamp` of STEP_STARTED is already called `timestamp`
  hint: give each member of an event a unique name
f:7:19: dialects[2].roles.user: `a` is already used for another value
  hint: give each value a unique word
f:7:39: dialects[2].roles.system: `assistant` is already used for another value
  hint: give each value a unique word
f:8:13: dialects[2].strip[0]: `delta` is a required member of events
  hint: strip only optional members
f:11:47: routes[0].agent.dialect: `auto` takes no options
  hint: write `agent: auto`
",
    ),
    (
        "aliases for a dialect that has none",
        r"
routes:
  - {path: /a, client: ag-ui, agent: {dialect: hai, roles: {user: a}, errors: [X]}, upstream: http://h/}
",
        r"
f:2:67: routes[0].agent.roles: the dialect `hai` has no option `roles`
  hint: remove it; it applies only to `ag-ui-snake`
f:2:80: routes[0].agent.errors: the dialect `hai` has no option `errors`
  hint: remove it; it applies only to `ag-ui-snake`
",
    ),
    (
        "paths of events",
        r#"
routes:
  - path: /a/x/events
    events_path: /a/{thread_id}/events
    client: social-app
    agent: {dialect: social-app}
    upstream: http://h/
    events: http://h/{thread_id}
    timeouts: {reader: 0s}
  - {path: /b, events_path: "/{thread_id}/x/events", client: social-app, agent: ag-ui, upstream: http://h/, events: "/{id}"}
  - {path: /c, events_path: /c/events, client: social-app, agent: ag-ui, upstream: http://h/, events: "e/{thread_id}"}
  - {path: /d, events_path: "/d/x{thread_id}", client: ag-ui, agent: ag-ui, upstream: http://h/, events: "/{run_id}"}
  - {path: /e, events_path: "/e/{thread_id}/{run_id}", client: social-app, agent: ag-ui, upstream: http://h/, events: "/{thread_id}/ #"}
"#,
        r"
f:3:18: routes[0].events_path: this covers routes[0].path (line 2, column 11)
  hint: add a segment of its own, such as `/events` at the end
f:7:13: routes[0].events: `http://h/{thread_id}` is a URL, not a path
  hint: write only the path: the events are requested from the host that accepted the run
f:8:24: routes[0].timeouts.reader: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
f:9:29: routes[1].events_path: some request paths match both this and routes[0].events_path (line 3, column 18)
  hint: add a segment of its own, such as `/events` at the end
f:9:29: routes[1].events_path: this covers routes[0].path (line 2, column 11)
  hint: add a segment of its own, such as `/events` at the end
f:9:117: routes[1].events: `/{id}` must contain `{thread_id}`, and no placeholders other than `{thread_id}` and `{run_id}`
  hint: write a path with `{thread_id}`, such as `/api/v1/agent/runs/{thread_id}/events`
f:10:29: routes[2].events_path: `/c/events` must have `{thread_id}` as one whole segment
  hint: write a path with `{thread_id}` as one of its segments, such as `/runs/{thread_id}/events`
f:10:103: routes[2].events: `e/{thread_id}` does not begin with `/`
  hint: did you mean `/e/{thread_id}`?
f:11:29: routes[3].events_path: `/d/x{thread_id}` must have `{thread_id}` as one whole segment
  hint: write a path with `{thread_id}` as one of its segments, such as `/runs/{thread_id}/events`
f:11:29: routes[3].events_path: clients of `ag-ui` receive their events in the response to the POST
  hint: remove it; it applies only to `social-app`
f:11:106: routes[3].events: `/{run_id}` must contain `{thread_id}`, and no placeholders other than `{thread_id}` and `{run_id}`
  hint: write a path with `{thread_id}`, such as `/api/v1/agent/runs/{thread_id}/events`
f:12:29: routes[4].events_path: `/e/{thread_id}/{run_id}` must contain `{thread_id}` once and no other placeholder
  hint: write a path with `{thread_id}` as one of its segments, such as `/runs/{thread_id}/events`
f:12:119: routes[4].events: `/{thread_id}/ #` has a fragment, which is never sent
  hint: remove `#` and everything after it
",
    ),
    (
        "a route whose keys have too little indentation",
        r"
routes:
- path: /chat
client: ag-ui
agent: hai
upstream: http://h/
keep_alive: 15
",
        r"
f:3:1: client: unknown key `client`
  hint: it is a key of a route: write it below `routes:`, after `- ` or with the same indentation as the key after it
f:4:1: agent: unknown key `agent`
  hint: it is a key of a route: write it below `routes:`, after `- ` or with the same indentation as the key after it
f:5:1: upstream: unknown key `upstream`
  hint: it is a key of a route: write it below `routes:`, after `- ` or with the same indentation as the key after it
f:6:13: keep_alive: `15` is not a duration
  hint: did you mean `15s`?
",
    ),
    (
        "keys of other mappings in a route",
        r"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    idle: 5m
    request_body: 1MiB
    replay: {age: 1m}
    headers: {x-a: b}
",
        r"
f:6:5: routes[0].idle: unknown key `idle`
  hint: it is a key of `timeouts` of a route
f:7:5: routes[0].request_body: unknown key `request_body`
  hint: it is a key of `limits` of the file
f:8:5: routes[0].replay: unknown key `replay`
  hint: it is a key of the whole file: write it without indentation
f:9:5: routes[0].headers: unknown key `headers`
  hint: did you mean `forward_headers` or `upstream_headers`?
",
    ),
    (
        "single values where mappings are",
        r"
listeners: {data: {address: 0.0.0.0:443, tls: true}}
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, health: true, cors: '*', timeouts: 30s, require: admin, ejection: off}
",
        r"
f:1:47: listeners.data.tls: expected a mapping, found a single value
  hint: name its files: `tls: {cert: tls.crt, key: tls.key}`
f:3:72: routes[0].health: expected a mapping, found a single value
  hint: write `health: {}` for the defaults, or `health: {path: /healthz}` to request a path
f:3:84: routes[0].cors: expected a mapping, found a single value
  hint: name the pages that may call: `cors: {origins: [https://app.example.com]}`
f:3:99: routes[0].timeouts: expected a mapping, found a single value
  hint: name the timeouts: `timeouts: {first_byte: 60s, idle: 5m}`
f:3:113: routes[0].require: expected a mapping, found a single value
  hint: name the requirements: `require: {scopes: [chat]}`
f:3:130: routes[0].ejection: expected a mapping, found a single value
  hint: write the thresholds: `ejection: {failures: 5, for: 30s}`
",
    ),
    (
        "a missing colon",
        r"
keep_alive 15s
drain_grace: 1s
",
        r"
f:1:1: there is no `: ` after `keep_alive`
  hint: write `keep_alive: …`: a colon and a space
",
    ),
    (
        "a typo of two possible keys, and a typo of a key that is also present",
        r"
routes:
  - {ath: /a, client: ag-ui, agent: hai, upstream: http://h/, agents: hai}
",
        r"
f:2:6: routes[0].ath: unknown key `ath`
  hint: did you mean `auth` or `path`?
f:2:63: routes[0].agents: unknown key `agents`
  hint: use one of: `name`, `path`, `events_path`, `on_disconnect`, `client`, `agent`, `upstream`, `upstream_tls`, `health`, `ejection`, `events`, `guard`, `agent_errors`, `timeouts`, `inspect`, `redact`, `auth`, `require`, `tools`, `threads`, `on_token_expiry`, `rate_limits`, `max_streams`, `max_streams_per_caller`, `run_limits`, `cors`, `errors`, `forward_headers`, `forward_credentials`, `upstream_headers`
",
    ),
    (
        "mappings in place of lists, and lists in place of mappings",
        r"
listeners: [127.0.0.1:80]
rate_limits: {name: a}
trusted_proxies: 10.0.0.0/8
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, rate_limits: a, tools: {}, upstream_headers: [a]}
",
        r"
f:1:12: listeners: expected a mapping, found a list
  hint: name them: `listeners: {data: 127.0.0.1:8787, status: 127.0.0.1:8788}`
f:2:14: rate_limits: expected a list, found a mapping
  hint: begin each entry with `- `, indented below the key
f:3:18: trusted_proxies: expected a list, found a single value
  hint: begin each entry with `- `, indented below the key
f:5:77: routes[0].rate_limits: expected a list, found a single value
  hint: begin each entry with `- `, indented below the key
f:5:87: routes[0].tools: expected a list, found a mapping
  hint: begin each entry with `- `, indented below the key
f:5:109: routes[0].upstream_headers: expected a mapping, found a list
  hint: write `key: value` lines below it, indented
",
    ),
];
