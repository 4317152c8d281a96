//! Typos that YAML reads as something else, and their hints, in the form of [`super::broken::BROKEN`].

/// `(cause, file, expected problems)`
pub(super) const BROKEN: &[(&str, &str, &str)] = &[
    (
        "a key without its colon",
        r"
routes:
  - path: /a
    client ag-ui
    agent: hai
    upstream: http://h/
",
        r"
f:3:5: there is no `: ` after `client`
  hint: write `client: ag-ui`: a colon and a space
",
    ),
    (
        "a colon without a space",
        r"
routes:
  - path: /a
    client:ag-ui
    agent: hai
    upstream: http://h/
",
        r"
f:3:5: there is no `: ` after `client`
  hint: write `client: ag-ui`: a colon and a space
",
    ),
    (
        "a full-width colon",
        r"
routes:
  - path: /a
    client： ag-ui
    agent: hai
    upstream: http://h/
",
        r"
f:3:5: there is no `: ` after `client`
  hint: write `client: ag-ui`: a colon and a space
",
    ),
    (
        "the first key of a route without its colon",
        r"
routes:
  - path /a
    client: ag-ui
",
        r"
f:2:5: there is no `: ` after `path`
  hint: write `path: …`: a colon and a space
",
    ),
    (
        "a section whose only key has no space after its colon",
        r"
limits:
  frame:1MiB
",
        r"
f:2:3: limits: there is no `: ` after `frame`
  hint: write `frame: …`: a colon and a space
",
    ),
    (
        "quotes of a word processor",
        r"
routes:
  - path: “/a”
    client: ‘ag-ui’
    agent: hai
    guard: “strict”
    auth: “none”
    upstream: http://h/
",
        r#"
f:2:11: routes[0].path: `“/a”` does not begin with `/`
  hint: use straight quotes, `"` or `'`, or none
f:3:13: routes[0].client: `‘ag-ui’` is not a dialect
  hint: use straight quotes, `"` or `'`, or none
f:5:12: routes[0].guard: `“strict”` is not a valid choice
  hint: use straight quotes, `"` or `'`, or none
f:6:11: routes[0].auth: the value is not the name of an issuer or a list of API keys
  hint: use straight quotes, `"` or `'`, or none
"#,
    ),
    (
        "a dash without a space",
        r"
routes:
  -name: chat
    path: /a
",
        r"
f:2:3: this is not a list entry: there is no space between `-` and `name`
  hint: write `- name: …`: a space after the dash
",
    ),
    (
        "a second dash without a space",
        r"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
  -path: /b
",
        r"
f:6:3: this is not a list entry: there is no space between `-` and `path`
  hint: write `- path: …`: a space after the dash
",
    ),
    (
        "the only dash, without a space",
        r"
routes:
  -path: /b
",
        r"
f:2:3: routes: this is not a list entry: there is no space between `-` and `path`
  hint: write `- path: …`: a space after the dash
",
    ),
    (
        "a value that is a comment",
        r"
routes:
  - path: #/x
    client: ag-ui
    agent: hai
    upstream: http://h/
",
        r"
f:2:11: routes[0]: the key `path` is missing or empty
  hint: `#` begins a comment; quote a value that begins with it
",
    ),
    (
        "a comment where a value is missing",
        r"
routes:
  - client: ag-ui
    agent: hai
    upstream: http://h/
    path: # of the agent
",
        r"
f:2:5: routes[0]: the key `path` is missing or empty
  hint: add the path that clients call, such as `path: /agents/chat`
",
    ),
    (
        "a value of the whole file that is a comment",
        r"
keep_alive: #15s
",
        r"
f:1:13: keep_alive: the value is missing
  hint: `#` begins a comment; quote a value that begins with it
",
    ),
    (
        "a route with an `auth` that the file does not define",
        r"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    auth: [corp]
    upstream: http://h/
",
        r"
f:5:12: routes[0].auth[0]: the value is not the name of an issuer or a list of API keys
  hint: this file has no `auth`: list issuers or API keys there, or write `auth: none` here
",
    ),
    (
        "a ConfigMap",
        r"
apiVersion: v1
kind: ConfigMap
metadata:
  name: diglot
data:
  diglot.yaml: |
    routes: []
",
        r"
f:2:1: this is a Kubernetes manifest, not a configuration
  hint: check the configuration below `data` as a separate file
",
    ),
    (
        "a secret without its colon",
        r"
auth:
  api_keys:
    - sha256 hunter2
      name: a
",
        r"
f:3:7: there is no `: ` after `sha256`
  hint: write `sha256: …`: a colon and a space
",
    ),
    (
        "colons without a space between braces",
        r#"
routes:
  - {path: /a, client:hai, agent: ag-ui, upstream:"http://h/"}
"#,
        r"
f:2:16: routes[0]: there is no `: ` after `client`
  hint: write `client: ag-ui`: a colon and a space
f:2:42: routes[0]: there is no `: ` after `upstream`
  hint: write `upstream: …`: a colon and a space
",
    ),
    (
        "a secret without its colon between braces",
        r"
redis: {password_file:hunter2, url: redis://h/}
",
        r"
f:1:9: redis: there is no `: ` after `password_file`
  hint: write `password_file: …`: a colon and a space
",
    ),
    (
        "a secret whose first quote is missing",
        r#"
auth:
  api_keys:
    - {name: a, keys: [{id: b, sha256: {hunter2}"}]}
"#,
        r#"
f:3:40: the `"` that opens this text is missing
  hint: write `"` before it
"#,
    ),
    (
        "a section without its colon",
        r"
limits
  frame: 1MiB
",
        r"
f:1:1: there is no `:` after `limits`
  hint: write `limits:`
",
    ),
    (
        "a key that is as far left as its section",
        r"
limits:
request_body: 1MiB
  frame: 1MiB
",
        r"
f:2:1: this key is indented by 0 spaces, and the next by 2
  hint: indent the keys of one mapping by the same number of spaces
",
    ),
    (
        "a semicolon between braces",
        r"
routes:
  - {path: /a; client: ag-ui, agent: hai, upstream: http://h/}
",
        r"
f:2:14: `;` stands where a comma is meant
  hint: write `, ` between the keys
",
    ),
    (
        "a comma that is missing between braces",
        r#"
routes:
  - {path: "/a" client: ag-ui, agent: hai, upstream: http://h/}
"#,
        r"
f:2:17: a comma is missing before `client`
  hint: write `, ` between the keys
",
    ),
    (
        "a list whose first dash is missing",
        r"
routes:
    path: /a
    client: ag-ui
  - path: /b
",
        r"
f:2:5: `routes` is a list, and this is no element of one
  hint: begin it with `- `, as the other elements
",
    ),
    (
        "a file in TOML",
        r#"
[limits]
frame = "1MiB"
# routes:
"#,
        r"
f:1:1: this is not YAML, but looks like TOML, INI or a program
  hint: write the same keys and values in YAML: `key: value`, and `- ` before each element of a list
",
    ),
];
