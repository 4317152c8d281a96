//! Mistakes in keys for callers, in the form of [`super::broken`].

/// `(cause, file, expected problems)`
pub(super) const BROKEN: &[(&str, &str, &str)] = &[
    (
        "proxies",
        r#"
trusted_proxies: [10.0.0.0/8, 10.1.2.3/8, "fd00::1/64", 10.0.0.0/33, proxy.local, "${SECRET}"]
"#,
        r"
f:1:31: trusted_proxies[1]: `10.1.2.3/8` is an address in a network, not a network
  hint: did you mean `10.0.0.0/8`?
f:1:43: trusted_proxies[2]: `fd00::1/64` is an address in a network, not a network
  hint: did you mean `fd00::/64`?
f:1:57: trusted_proxies[3]: `10.0.0.0/33` is neither an address nor a network
  hint: write an address or a network, such as `10.0.0.7`, `10.0.0.0/8` or `fd00::/8`; for proxies on a Unix socket `unix`
f:1:70: trusted_proxies[4]: `proxy.local` is neither an address nor a network
  hint: write an address or a network, such as `10.0.0.7`, `10.0.0.0/8` or `fd00::/8`; for proxies on a Unix socket `unix`
f:1:83: trusted_proxies[5]: `${SECRET}`, with its variables expanded, is neither an address nor a network
  hint: write an address or a network, such as `10.0.0.7`, `10.0.0.0/8` or `fd00::/8`; for proxies on a Unix socket `unix`
",
    ),
    (
        "the gateway's own URL",
        r#"
auth: {resource: "https://agents.example.com/"}
"#,
        r"
f:1:18: auth.resource: `https://agents.example.com/` ends with `/`
  hint: did you mean `https://agents.example.com`?
",
    ),
    (
        "the gateway's own URL over http, with a query",
        r#"
auth: {resource: "http://agents.example.com"}
limits: {legacy_headers: "yes"}
"#,
        r"
f:1:18: auth.resource: `http://agents.example.com` is not an https URL
  hint: write `https://`: data sent over http can be modified in transit; only loopback addresses may use http
f:2:26: limits.legacy_headers: `yes` is not a valid choice
  hint: write `true` or `false`
",
    ),
    (
        "an empty issuer, an empty list of keys, and an empty key",
        r"
auth:
  issuers: [{}]
  api_keys: [{}, {name: x, keys: [{}]}]
",
        r"
f:2:13: auth.issuers[0]: the key `name` is missing or empty
  hint: add the name that routes use, such as `name: staff`
f:2:13: auth.issuers[0]: the key `issuer` is missing or empty
  hint: add the `iss` claim of its tokens, such as `issuer: https://login.example.com`
f:2:13: auth.issuers[0]: the key `audience` is missing or empty
  hint: add the value that `aud` must contain, such as `audience: https://agents.example.com`
f:3:14: auth.api_keys[0]: the key `name` is missing or empty
  hint: add the name that routes use, such as `name: partners`
f:3:14: auth.api_keys[0]: this list has no keys, so no caller could authenticate with it
  hint: add `file` or a list `keys`, or remove the entry
f:3:35: auth.api_keys[1].keys[0]: the key `id` is missing or empty
  hint: add the name that logs show, such as `id: alice-1`
f:3:35: auth.api_keys[1].keys[0]: the key `sha256` is missing or empty
  hint: add the SHA-256 digest of the key: `printf %s KEY | sha256sum`
",
    ),
    (
        "an issuer's key with its letters swapped",
        r"
auth:
  issuers:
    - {name: x, isuser: y}
",
        r"
f:3:7: auth.issuers[0]: the key `audience` is missing or empty
  hint: add the value that `aud` must contain, such as `audience: https://agents.example.com`
f:3:17: auth.issuers[0].isuser: unknown key `isuser`
  hint: did you mean `issuer`?
f:3:25: auth.issuers[0].issuer: the value is not an https URL, so its keys cannot be discovered
  hint: write the issuer's https URL, or configure its keys: `jwks_url`, `jwks_file`, `public_key_file`, `secret_file` or `secret`
",
    ),
    (
        "names of methods",
        r#"
auth:
  issuers:
    - {name: none, issuer: "https://a", audience: x}
    - {name: x, issuer: "https://b", audience: x}
    - {name: "a\tb", issuer: "https://b", audience: []}
  api_keys:
    - {name: x, keys: [{id: a, sha256: 0000000000000000000000000000000000000000000000000000000000000000}]}
"#,
        r"
f:3:14: auth.issuers[0].name: `none` is reserved: in routes it means that no credential is required
  hint: give it another name
f:5:14: auth.issuers[2].name: `a b` contains a control character
  hint: write the name on one line, without tabs
f:5:30: auth.issuers[2].issuer: this issuer is already listed as auth.issuers[1].issuer (line 4, column 25)
  hint: list each issuer once, because tokens are matched by issuer; write several audiences as a list
f:5:53: auth.issuers[2].audience: the list is empty
  hint: write at least one value
f:7:14: auth.api_keys[0].name: this name is already used by auth.issuers[1].name (line 4, column 14)
  hint: give each issuer and each list of API keys a unique name
",
    ),
    (
        "an issuer that cannot be discovered",
        r#"
auth:
  issuers:
    - {name: a, issuer: "http://login.example.com", audience: x}
    - {name: b, issuer: staff, audience: x}
    - {name: c, issuer: "https://login.example.com/?a=b", audience: x}
    - {name: d, issuer: "https://me:hunter2@login.example.com", audience: x}
"#,
        r"
f:3:25: auth.issuers[0].issuer: `http://login.example.com` is not an https URL, so its keys cannot be discovered
  hint: write the issuer's https URL, or configure its keys: `jwks_url`, `jwks_file`, `public_key_file`, `secret_file` or `secret`
f:4:25: auth.issuers[1].issuer: `staff` is not an https URL, so its keys cannot be discovered
  hint: write the issuer's https URL, or configure its keys: `jwks_url`, `jwks_file`, `public_key_file`, `secret_file` or `secret`
f:5:25: auth.issuers[2].issuer: the value is not an https URL, so its keys cannot be discovered
  hint: write the issuer's https URL, or configure its keys: `jwks_url`, `jwks_file`, `public_key_file`, `secret_file` or `secret`
f:6:25: auth.issuers[3].issuer: the value is not an https URL, so its keys cannot be discovered
  hint: write the issuer's https URL, or configure its keys: `jwks_url`, `jwks_file`, `public_key_file`, `secret_file` or `secret`
",
    ),
    (
        "sources of keys",
        r#"
auth:
  issuers:
    - {name: a, issuer: a, audience: x, jwks_url: "http://login.example.com/keys"}
    - {name: b, issuer: b, audience: x, jwks_url: "https://me:hunter2@login.example.com/keys"}
    - {name: c, issuer: c, audience: x, jwks_file: absent.json}
    - {name: d, issuer: d, audience: x, public_key_file: "/absent/${SECRET}"}
    - {name: e, issuer: e, audience: x, jwks_url: "https://e/", secret: "${SECRET}"}
"#,
        r"
f:3:51: auth.issuers[0].jwks_url: `http://login.example.com/keys` is not an https URL
  hint: write `https://`: data sent over http can be modified in transit; only loopback addresses may use http
f:4:51: auth.issuers[1].jwks_url: the value contains a user name or password
  hint: remove it from the URL: everyone who can read the configuration or a log would see it
f:5:52: auth.issuers[2].jwks_file: the file cannot be read: No such file or directory (os error 2)
  hint: name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration
f:6:58: auth.issuers[3].public_key_file: the file cannot be read: No such file or directory (os error 2)
  hint: name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration
f:7:73: auth.issuers[4].secret: both `jwks_url` and `secret` are set
  hint: keep one of the two; an issuer with two kinds of keys is only as secure as the weaker kind
",
    ),
    (
        "secrets that are too short",
        r#"
auth:
  issuers:
    - {name: a, issuer: a, audience: x, secret: hunter2}
    - {name: b, issuer: b, audience: x, secret: "${SECRET}", leeway: 2m}
    - {name: c, issuer: c, audience: x, secret: "hunter2-hunter2-hunter2-hunter2-hunter2", algorithms: [HS256, HS384, HS512]}
    - {name: d, issuer: d, audience: x, secret: "${hunter2 hunter2"}
    - {name: e, issuer: e, audience: x, secret: "${NOT_SET}"}
    - {name: f, issuer: f, audience: x, secret_file: absent}
"#,
        r"
f:3:49: auth.issuers[0].secret: the secret is shorter than 32 bytes (RFC 7518 §3.2)
  hint: generate one with `openssl rand -base64 48`; a short secret can be guessed offline from a single token
f:4:49: auth.issuers[1].secret: the secret is shorter than 32 bytes (RFC 7518 §3.2)
  hint: generate one with `openssl rand -base64 48`; a short secret can be guessed offline from a single token
f:4:70: auth.issuers[1].leeway: `2m` is longer than clocks usually differ
  hint: write at most `60s`; every token stays valid for that much longer
f:5:112: auth.issuers[2].algorithms[1]: `HS384` needs a secret of at least 48 bytes (RFC 7518 §3.2)
  hint: use a longer secret, or remove the algorithm
f:5:119: auth.issuers[2].algorithms[2]: `HS512` needs a secret of at least 64 bytes (RFC 7518 §3.2)
  hint: use a longer secret, or remove the algorithm
f:6:49: auth.issuers[3].secret: `${` in the value is not followed by a valid variable name
  hint: write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`
f:7:49: auth.issuers[4].secret: the environment variable `NOT_SET` is not set
  hint: set it where Diglot is started: `NOT_SET`
f:8:54: auth.issuers[5].secret_file: the file cannot be read: No such file or directory (os error 2)
  hint: name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration
",
    ),
    (
        "algorithms that do not match the keys",
        r#"
auth:
  issuers:
    - {name: a, issuer: a, audience: x, jwks_url: "https://a/", algorithms: [RS256, HS256]}
    - {name: b, issuer: b, audience: x, secret: "hunter2-hunter2-hunter2-hunter2-hunter2", algorithms: [RS256]}
    - {name: c, issuer: c, audience: x, jwks_url: "https://c/", algorithms: [none, rs256, ES512]}
"#,
        r"
f:3:85: auth.issuers[0].algorithms[1]: `HS256` is verified with a secret, but these are public keys
  hint: remove it, or write `secret_file`: if a public key were used as a secret, everyone who has that key could sign tokens
f:4:105: auth.issuers[1].algorithms[0]: `RS256` is verified with a public key, but this is a secret
  hint: remove it, or configure public keys, for example with `jwks_url`
f:5:78: auth.issuers[2].algorithms[0]: `none` would allow unsigned tokens
  hint: write HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA
f:5:84: auth.issuers[2].algorithms[1]: `rs256` is not a supported algorithm
  hint: did you mean `RS256`?
f:5:91: auth.issuers[2].algorithms[2]: `ES512` is not a supported algorithm
  hint: write HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA
",
    ),
    (
        "settings for the claims of a token",
        r#"
auth:
  issuers:
    - {name: a, issuer: "https://a", audience: x, types: ["a b", "application/"], leeway: 61s, subject_claim: "a\tb"}
    - {name: b, issuer: "https://b", audience: x, leeway: 5, tier_claim: ""}
"#,
        r"
f:3:59: auth.issuers[0].types[0]: `a b` is not a media type
  hint: write the value of `typ`, such as `JWT` or `at+jwt`
f:3:66: auth.issuers[0].types[1]: `application/` is not a media type
  hint: write the value of `typ`, such as `JWT` or `at+jwt`
f:3:91: auth.issuers[0].leeway: `61s` is longer than clocks usually differ
  hint: write at most `60s`; every token stays valid for that much longer
f:3:111: auth.issuers[0].subject_claim: `a b` contains a control character
  hint: write it on one line, without tabs
f:4:59: auth.issuers[1].leeway: `5` is not a duration
  hint: did you mean `5s`?
f:4:74: auth.issuers[1].tier_claim: the value is empty
  hint: write a value or remove the key
",
    ),
    (
        "API keys",
        r#"
auth:
  api_keys:
    - name: a
      header: X-Api-Key
      keys:
        - {id: one, sha256: hunter2, scopes: ["a b"], expires: 2026-02-29}
        - {id: one, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef, expires: "2027-01-31T12:00:00"}
        - {id: two, sha256: 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF, expires: tomorrow}
    - {name: b, file: absent.yaml}
    - {name: c}
"#,
        r#"
f:4:15: auth.api_keys[0].header: `X-Api-Key` is not in lower case
  hint: did you mean `x-api-key`?
f:6:29: auth.api_keys[0].keys[0].sha256: the value is not a SHA-256 digest
  hint: write the SHA-256 digest of the key, 64 hexadecimal digits: `printf %s KEY | sha256sum`
f:6:47: auth.api_keys[0].keys[0].scopes[0]: `a b` is not a scope
  hint: write one scope of visible ASCII without `"` and `\`; several are a list: `[read, write]`
f:6:64: auth.api_keys[0].keys[0].expires: `2026-02-29` is not a date
  hint: write a date or a time with its offset: `2027-01-31`, `2027-01-31T12:00:00Z` or `2027-01-31T12:00:00+08:00`
f:7:16: auth.api_keys[0].keys[1].id: this id is already used by auth.api_keys[0].keys[0].id (line 6, column 16)
  hint: give each key a unique id
f:7:104: auth.api_keys[0].keys[1].expires: `2027-01-31T12:00:00` is not a date
  hint: write a date or a time with its offset: `2027-01-31`, `2027-01-31T12:00:00Z` or `2027-01-31T12:00:00+08:00`
f:8:29: auth.api_keys[0].keys[2].sha256: this is the same key as auth.api_keys[0].keys[1].sha256 (line 7, column 29)
  hint: each key identifies one caller: generate another key
f:8:104: auth.api_keys[0].keys[2].expires: `tomorrow` is not a date
  hint: write a date or a time with its offset: `2027-01-31`, `2027-01-31T12:00:00Z` or `2027-01-31T12:00:00+08:00`
f:9:23: auth.api_keys[1].file: the file cannot be read: No such file or directory (os error 2)
  hint: name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration
f:10:7: auth.api_keys[2]: this list has no keys, so no caller could authenticate with it
  hint: add `file` or a list `keys`, or remove the entry
"#,
    ),
    (
        "rate limits",
        r#"
rate_limits:
  - {}
  - {name: a, key: user, requests: 0}
  - {name: a, key: "claim:", requests: 5, burst: many, per: 25h}
  - {name: c, key: "header:X-Team", requests: 4294967296, per: 0s, shared: true}
  - {name: d, requests: 4000000000, per: 1ms}
  - {name: e, requests: 1, per: 24h, burst: 367, tiers: {gold: {}, silver: {requests: x}}, shared: maybe}
"#,
        r#"
f:2:5: rate_limits[0]: the key `name` is missing or empty
  hint: add the name that routes use, such as `name: standard`
f:2:5: rate_limits[0]: the key `requests` is missing or empty
  hint: add the number of requests allowed in each `per`, such as `requests: 60`
f:3:20: rate_limits[1].key: `user` is not a key that requests can be counted by
  hint: write `caller`, `tenant`, `claim:<name>`, `address`, `header:<name>` or `route`
f:3:36: rate_limits[1].requests: `0` must be greater than zero
  hint: write a whole number from 1 to 4294967295
f:4:12: rate_limits[2].name: this name is already used by rate_limits[1].name (line 3, column 12)
  hint: give each rate limit a unique name
f:4:20: rate_limits[2].key: `claim:` is not a key that requests can be counted by
  hint: write `caller`, `tenant`, `claim:<name>`, `address`, `header:<name>` or `route`
f:4:50: rate_limits[2].burst: `many` is not a number of requests
  hint: write a whole number from 1 to 4294967295
f:4:61: rate_limits[2].per: `25h` is longer than a day
  hint: write at most `24h`
f:5:20: rate_limits[3].key: `header:X-Team` is not in lower case
  hint: write the header name in lower case, such as `x-tenant`
f:5:47: rate_limits[3].requests: `4294967296` is not a number of requests
  hint: write a whole number from 1 to 4294967295
f:5:64: rate_limits[3].per: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
f:5:76: rate_limits[3].shared: this rate limit is shared through Redis, but `redis` is not configured
  hint: add `redis: {url: "redis://127.0.0.1:6379/0"}`, or remove `shared` to count in each replica
f:6:25: rate_limits[4].requests: this is more than one request per microsecond
  hint: write at most 1000000 requests per second
f:7:45: rate_limits[5].burst: this burst takes more than a year to refill
  hint: write a smaller `burst`, more `requests`, or a shorter `per`
f:7:64: rate_limits[5].tiers.gold: the key `requests` is missing or empty
  hint: add the number of requests allowed in each `per`, such as `requests: 60`
f:7:87: rate_limits[5].tiers.silver.requests: `x` is not a number of requests
  hint: write a whole number from 1 to 4294967295
f:7:100: rate_limits[5].shared: `maybe` is not a valid choice
  hint: write `true` or `false`
"#,
    ),
    (
        "a Redis",
        r"
redis:
  url: http://me:hunter2@h
  password_file: absent
  deadline: 2s
  on_error: ignore
",
        r"
f:2:8: redis.url: the value has a scheme other than `redis` and `rediss`
  hint: write a URL such as `redis://127.0.0.1:6379/0`, or `rediss://` for TLS
f:3:18: redis.password_file: the file cannot be read: No such file or directory (os error 2)
  hint: name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration
f:4:13: redis.deadline: `2s` is longer than a request should wait
  hint: write `1ms` to `1s`; every request may wait this long
f:5:13: redis.on_error: `ignore` is not a valid choice
  hint: write `local` or `allow` or `deny`
",
    ),
    (
        "URLs of Redis",
        r#"
redis: {url: "redis://:hunter2@h/x", deadline: 0s}
"#,
        r"
f:1:14: redis.url: the value has a database that is not a number
  hint: write its number after the host: `/0`
f:1:48: redis.deadline: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
",
    ),
    (
        "a Redis with a query",
        r#"
redis: {url: "rediss://h/0?password=hunter2"}
"#,
        r"
f:1:14: redis.url: the value has a query or a fragment
  hint: remove it; TLS certificates are always verified
",
    ),
    (
        "a Redis without a URL",
        r"
redis: {prefix: x}
",
        r"
f:1:8: redis: the key `url` is missing or empty
  hint: add the URL of the server, such as `url: redis://127.0.0.1:6379/0`
",
    ),
    (
        "origins",
        r#"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    cors:
      origins:
        - https://app.example.com/
        - HTTPS://App.example.com
        - https://app.example.com:443
        - app.example.com
        - "null"
        - https://*.example.com
        - https://me:hunter2@h
        - http://h:99999
      max_age: 25h
"#,
        r"
f:8:11: routes[0].cors.origins[0]: `https://app.example.com/` is not in the form that browsers send
  hint: did you mean `https://app.example.com`?
f:9:11: routes[0].cors.origins[1]: `HTTPS://App.example.com` is not in the form that browsers send
  hint: did you mean `https://app.example.com`?
f:10:11: routes[0].cors.origins[2]: `https://app.example.com:443` is not in the form that browsers send
  hint: did you mean `https://app.example.com`?
f:11:11: routes[0].cors.origins[3]: `app.example.com` has no scheme
  hint: did you mean `https://app.example.com`?
f:12:11: routes[0].cors.origins[4]: `null` does not identify one origin
  hint: every sandboxed frame and local file has the origin `null`, so allowing it would allow all of them
f:13:11: routes[0].cors.origins[5]: `https://*.example.com` looks like a pattern
  hint: write each origin in full; `*` alone allows any origin
f:14:11: routes[0].cors.origins[6]: the value is not an origin
  hint: write scheme, host and port as in the browser's `Origin` header: `https://app.example.com`
f:15:11: routes[0].cors.origins[7]: `http://h:99999` has a port outside 1 to 65535
  hint: correct the port, or leave out `:`
f:16:16: routes[0].cors.max_age: `25h` is longer than any browser caches it
  hint: write at most `24h`
",
    ),
    (
        "a wildcard with credentials, and one with other origins",
        r#"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, cors: {origins: "*", credentials: true}}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://h/, cors: {origins: ["*", "https://h"]}}
  - {path: /c, client: ag-ui, agent: hai, upstream: http://h/, cors: {origins: []}}
  - {path: /d, client: ag-ui, agent: hai, upstream: http://h/, cors: {}}
"#,
        r"
f:2:98: routes[0].cors.credentials: credentials cannot be combined with `*`
  hint: list the origins, or remove `credentials`: otherwise every page on the web could call with its visitors' credentials
f:3:80: routes[1].cors.origins: `*` cannot be combined with other origins
  hint: write `*` alone, or the origins alone
f:4:80: routes[2].cors.origins: the list is empty
  hint: write at least one value
f:5:70: routes[3].cors: the key `origins` is missing or empty
  hint: add the pages that may call, such as `origins: [https://app.example.com]`
",
    ),
    (
        "methods of a route",
        r#"
auth:
  issuers: [{name: staff, issuer: "https://a", audience: x}]
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, auth: staf}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://h/, auth: [none, staff]}
  - {path: /c, client: ag-ui, agent: hai, upstream: http://h/, auth: []}
  - {path: /d, client: ag-ui, agent: hai, upstream: http://h/, auth: "${SECRET}", rate_limits: [slow]}
"#,
        r"
f:4:70: routes[0].auth: the value is not the name of an issuer or a list of API keys
  hint: did you mean `staff`?
f:5:70: routes[1].auth: `none` cannot be combined with names
  hint: write `auth: none` alone, or the names alone
f:6:70: routes[2].auth: the list is empty, so every call would be rejected
  hint: write names, or `none` to allow calls without a credential
f:7:70: routes[3].auth: the value is not the name of an issuer or a list of API keys
  hint: use one of: `staff`, `none`
f:7:97: routes[3].rate_limits[0]: `slow` is not the name of a rate limit
  hint: this file does not define a rate limit
",
    ),
    (
        "rules about callers on a route without authentication",
        r#"
auth:
  issuers: [{name: staff, issuer: "https://a", audience: x}]
rate_limits:
  - {name: t, key: tenant, requests: 1}
  - {name: c, key: "claim:x", requests: 1}
  - {name: q, requests: 1, tiers: {gold: {requests: 2}}}
  - {name: fine, requests: 1}
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    auth: none
    require: {claims: {a: b}, scopes: [a], tenants: [a]}
    threads: owned
    on_token_expiry: close
    rate_limits: [t, c, q, fine, fine, fin]
"#,
        r"
f:14:27: routes[0].require.claims: this requires claims, but the route accepts calls without a credential
  hint: remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`
f:14:40: routes[0].require.scopes: this requires scopes, but the route accepts calls without a credential
  hint: remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`
f:14:54: routes[0].require.tenants: this requires tenants, but the route accepts calls without a credential
  hint: remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`
f:15:14: routes[0].threads: this assigns threads to callers, but the route accepts calls without a credential
  hint: remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`
f:16:22: routes[0].on_token_expiry: this depends on tokens, but the route accepts calls without a credential
  hint: remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`
f:17:19: routes[0].rate_limits[0]: this rate limit counts by tenant, but the route accepts calls without a credential
  hint: remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`
f:17:22: routes[0].rate_limits[1]: this rate limit counts by a claim, but the route accepts calls without a credential
  hint: remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`
f:17:25: routes[0].rate_limits[2]: this rate limit has tiers, but the route accepts calls without a credential
  hint: remove it, or list issuers or API keys in the route's `auth`, as defined in the file's `auth`
f:17:34: routes[0].rate_limits[4]: this rate limit is already listed
  hint: name each rate limit once
f:17:40: routes[0].rate_limits[5]: `fin` is not the name of a rate limit
  hint: did you mean `fine`?
",
    ),
    (
        "requirements that no caller can meet",
        r#"
auth:
  api_keys: [{name: k, keys: [{id: a, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}]}]
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    require: {claims: {a: []}, scopes: ["a b"], tenants: ["a\tb"]}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://h/, require: {claims: {a: b}}}
  - {path: /c, client: ag-ui, agent: hai, upstream: http://h/, require: {tenants: [a, b]}}
"#,
        r#"
f:8:27: routes[0].require.claims.a: the list is empty
  hint: write at least one value
f:8:27: routes[0].require.claims.a: API keys have no claims, so every call of this route would be rejected
  hint: require `scopes` or `tenants` instead, which API keys can have
f:8:41: routes[0].require.scopes[0]: `a b` is not a scope
  hint: write one scope of visible ASCII without `"` and `\`; several are a list: `[read, write]`
f:8:59: routes[0].require.tenants[0]: `a b` contains a control character
  hint: write it on one line, without tabs
f:8:59: routes[0].require.tenants: no caller of this route has a tenant, so every call would be rejected
  hint: add `tenant_claim` to an issuer of the route, or `tenant` to its API keys; or remove this key
f:9:86: routes[1].require.claims.a: API keys have no claims, so every call of this route would be rejected
  hint: require `scopes` or `tenants` instead, which API keys can have
f:10:84: routes[2].require.tenants: no caller of this route has a tenant, so every call would be rejected
  hint: add `tenant_claim` to an issuer of the route, or `tenant` to its API keys; or remove this key
"#,
    ),
    (
        "threads, ends, forms and counts of a route",
        r#"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    threads: mine
    on_token_expiry: cut
    errors: sse
    tools: ["a\tb"]
    max_streams: 0
    max_streams_per_caller: -1
    run_limits: {events: x, bytes: 8MB, duration: 0s}
    forward_credentials: yes
"#,
        r"
f:6:14: routes[0].threads: `mine` is not a valid choice
  hint: write `shared` or `owned`
f:7:22: routes[0].on_token_expiry: `cut` is not a valid choice
  hint: write `finish` or `run_error` or `close`
f:8:13: routes[0].errors: `sse` is not a valid choice
  hint: write `http` or `run_error`
f:9:13: routes[0].tools[0]: `a b` is not a valid tool name
  hint: write the name as in `tools` of the request, at most 256 bytes on one line
f:10:18: routes[0].max_streams: `0` must be greater than zero
  hint: write a whole number of at least 1
f:11:29: routes[0].max_streams_per_caller: `-1` is not a number
  hint: write a whole number of at least 1
f:12:26: routes[0].run_limits.events: `x` is not a number
  hint: write a whole number of at least 1
f:12:36: routes[0].run_limits.bytes: `8MB` is not a size
  hint: did you mean `8MiB`?
f:12:51: routes[0].run_limits.duration: `0s` must be greater than zero
  hint: write a duration of at least `1ms`
f:13:26: routes[0].forward_credentials: `yes` is not a valid choice
  hint: write `true` or `false`
",
    ),
    (
        "forwarded header fields",
        r#"
auth:
  api_keys: [{name: k, header: x-key, keys: [{id: a, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}]}]
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    forward_headers: [x-a, X-B, authorization, cookie, x-key, te, host, x-diglot-subject, x-forwarded-for, traceparent, "a b", x_diglot_subject]
"#,
        r"
f:8:28: routes[0].forward_headers[1]: `X-B` is not in lower case
  hint: did you mean `x-b`?
f:8:33: routes[0].forward_headers[2]: `authorization` carries the caller's credentials
  hint: remove it, and write `forward_credentials: true` if the agent needs it
f:8:48: routes[0].forward_headers[3]: `cookie` carries the caller's credentials
  hint: remove it, and write `forward_credentials: true` if the agent needs it
f:8:56: routes[0].forward_headers[4]: `x-key` carries API keys of callers
  hint: remove it, and write `forward_credentials: true` if the agent needs it
f:8:63: routes[0].forward_headers[5]: `te` belongs to a connection, not to a request
  hint: remove it: it applies to one connection (RFC 9110 §7.6.1), and the connection to the agent is another
f:8:67: routes[0].forward_headers[6]: `host` is set by the gateway itself
  hint: remove it: the gateway sends it to the agent when it is needed
f:8:73: routes[0].forward_headers[7]: `x-diglot-subject` is set by the gateway itself
  hint: remove it: the gateway sends it to the agent when it is needed
f:8:91: routes[0].forward_headers[8]: `x-forwarded-for` claims where a request comes from, and any caller can set it
  hint: remove it: callers can put any address in it
f:8:108: routes[0].forward_headers[9]: `traceparent` is set by the gateway itself
  hint: remove it: the gateway sends it to the agent when it is needed
f:8:121: routes[0].forward_headers[10]: `a b` is not a valid header name
  hint: write the header name in lower case, such as `x-tenant`
f:8:128: routes[0].forward_headers[11]: `x_diglot_subject` can be confused with another header by agents that treat `_` as `-`
  hint: have callers send it with `-`
",
    ),
    (
        "header fields that the gateway sets",
        r#"
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    forward_headers: [x-a]
    forward_credentials: true
    upstream_headers:
      authorization: Bearer hunter2
      Authorization: Bearer hunter2
      x-a: hunter2
      x-b: "hunter2\n2"
      x-c: {file: absent, prefix: "hunter2 "}
      x-d: {}
      x-e: ""
      x-f: "${hunter2 hunter2}"
      transfer-encoding: chunked
      x-diglot-tenant: x
"#,
        r"
f:9:22: routes[0].upstream_headers.authorization: `forward_credentials` already forwards the caller's `authorization`
  hint: keep one of the two: a request has only one `authorization`
f:10:22: routes[0].upstream_headers.Authorization: `Authorization` is not in lower case
  hint: did you mean `authorization`?
f:11:12: routes[0].upstream_headers.x-a: this header is also in `forward_headers`
  hint: keep it in one of the two; callers must not set a header that the gateway sets
f:12:12: routes[0].upstream_headers.x-b: the value contains characters that a header cannot contain
  hint: write visible ASCII on one line
f:13:19: routes[0].upstream_headers.x-c.file: the file cannot be read: No such file or directory (os error 2)
  hint: name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration
f:14:12: routes[0].upstream_headers.x-d: the key `file` is missing or empty
  hint: add the file with the value, such as `file: /run/secrets/agent`
f:15:12: routes[0].upstream_headers.x-e: the value is empty
  hint: write a value or remove the key
f:16:12: routes[0].upstream_headers.x-f: `${` in the value is not followed by a valid variable name
  hint: write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`
f:17:26: routes[0].upstream_headers.transfer-encoding: `transfer-encoding` belongs to a connection, not to a request
  hint: remove it: it applies to one connection (RFC 9110 §7.6.1), and the connection to the agent is another
f:18:24: routes[0].upstream_headers.x-diglot-tenant: `x-diglot-tenant` is set by the gateway itself
  hint: remove it: the gateway sends it to the agent when it is needed
",
    ),
    (
        "a field that the gateway sets, as a number",
        r"
routes:
  - path: /a
    upstream_headers: {x-a: 5000}
",
        r"
f:2:5: routes[0]: the key `client` is missing or empty
  hint: add the dialect of the clients, such as `client: ag-ui`
f:2:5: routes[0]: the key `agent` is missing or empty
  hint: add the dialect of the agent, such as `agent: hai`
f:2:5: routes[0]: the key `upstream` is missing or empty
  hint: add the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`
f:3:29: routes[0].upstream_headers.x-a: expected a value or a mapping such as {file: PATH}, found a number
  hint: put the value in quotes if it is meant as text
",
    ),
    (
        "a field that the gateway sets, as a list",
        r"
routes:
  - path: /a
    upstream_headers: {x-a: [hunter2]}
",
        r"
f:2:5: routes[0]: the key `client` is missing or empty
  hint: add the dialect of the clients, such as `client: ag-ui`
f:2:5: routes[0]: the key `agent` is missing or empty
  hint: add the dialect of the agent, such as `agent: hai`
f:2:5: routes[0]: the key `upstream` is missing or empty
  hint: add the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`
f:3:29: routes[0].upstream_headers.x-a: expected a value or a mapping such as {file: PATH}, found a list
",
    ),
    (
        "a field that the gateway sets, twice",
        r"
routes:
  - path: /a
    upstream_headers: {x-a: hunter2, x-a: hunter2}
",
        r"
f:2:5: routes[0]: the key `client` is missing or empty
  hint: add the dialect of the clients, such as `client: ag-ui`
f:2:5: routes[0]: the key `agent` is missing or empty
  hint: add the dialect of the agent, such as `agent: hai`
f:2:5: routes[0]: the key `upstream` is missing or empty
  hint: add the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`
f:3:38: routes[0].upstream_headers.x-a: the key `x-a` is defined twice; first on line 3
  hint: keep one of the two, or merge their values
",
    ),
];
