//! Agents: where they are, how they are spoken to, and when one is left out.

use serde_saphyr::{Location, Spanned};

use super::{Check, Seen, every, position};
use crate::config::file::{self, UpstreamMapping};
use crate::config::{Ejection, Health, Identity, Upstream, UpstreamTls, scalar, words};

impl Check<'_> {
    pub(super) fn upstreams(&mut self, written: &Spanned<file::Upstreams>, at: &str) -> Option<Vec<Upstream>> {
        let place = (written.defined, written.referenced);
        let list: Vec<_> = match &written.value {
            file::Upstreams::One(one) => vec![self.upstream(one, at, place)],
            file::Upstreams::Many(many) => {
                let places = many.iter().map(|one| (&one.value, (one.defined, one.referenced))).enumerate();
                places.map(|(index, (one, place))| self.upstream(one, &format!("{at}[{index}]"), place)).collect()
            }
        };
        if list.is_empty() {
            let hint = "write one URL or more, such as `http://127.0.0.1:9001/chat`";
            self.note(at, position(written.defined), "there is no upstream to send requests to", hint);
        }
        let all: Vec<&Seen<Upstream>> = list.iter().flatten().collect();
        // Runs are spread over addresses, so of two paths at one address only the first would ever be asked.
        let hint = "list each host and port once, with a `weight` for a larger share of runs; another path takes a route of its \
                    own";
        self.distinct(&all, Upstream::is_at, "this host and port are already listed as", hint);
        for one in &all {
            if let Some(own) = self.own.iter().find(|own| one.value.leads_to(&own.value)) {
                let message = format!("this is the gateway itself, {}; requests would go round in it", own.place());
                self.note(&one.path, one.position, message, "write the address and port of the agent");
            }
        }
        every(list)
    }

    /// One upstream, where it is defined and where it is used.
    fn upstream(
        &mut self,
        written: &file::Upstream,
        at: &str,
        (defined, used): (Location, Location),
    ) -> Option<Seen<Upstream>> {
        let mapping = match written {
            file::Upstream::Url(url) => {
                let value = self.read(url, at, position(defined), scalar::upstream);
                return value.map(|value| Seen::new(value, at, used));
            }
            file::Upstream::Mapping(mapping) => mapping,
        };
        let UpstreamMapping { url, weight, http } = &**mapping;
        let example = "where the agent is, such as `url: http://127.0.0.1:9001/chat`";
        let url = self.needed(url.as_ref(), at, "url", example, position(defined));
        let url = url.and_then(|url| self.seen(url, &format!("{at}.url"), scalar::upstream));
        let weight = self.value(weight, &format!("{at}.weight"), scalar::weight);
        let http = self.choice(http, &format!("{at}.http"), words::HTTP);
        let mut url = url?;
        (url.value.weight, url.value.http) = (weight?, http?);
        Some(url)
    }

    /// What TLS connections of the route are made with. `encrypted` says whether any is.
    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    pub(super) fn upstream_tls(
        &mut self,
        written: Option<&Spanned<file::UpstreamTls>>,
        at: &str,
        upstreams: Option<&[Upstream]>,
    ) -> Option<Option<UpstreamTls>> {
        let Some(written) = written else { return Some(None) };
        let place = position(written.defined);
        let file::UpstreamTls { ca, cert, key, server_name } = &written.value;
        let ca = ca.as_ref().map(|ca| self.authorities(ca, &format!("{at}.ca")));
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some(self.pair(cert, key, at).map(|(cert, key, _)| Identity { cert, key })),
            (None, None) => None,
            _ if self.is_lost(&format!("{at}.cert")) || self.is_lost(&format!("{at}.key")) => Some(None),
            (cert, _) => {
                let (there, lacking) = if cert.is_some() { ("cert", "key") } else { ("key", "cert") };
                let message = format!("there is a `{there}` and no `{lacking}`");
                self.note(at, place, message, "write both files: an agent that asks who calls is shown both");
                Some(None)
            }
        };
        let server_name = self.optional(server_name.as_ref(), &format!("{at}.server_name"), scalar::server_name);
        if upstreams.is_some_and(|all| !all.iter().any(Upstream::tls)) {
            let hint = "write `https://` in `upstream`, or take `upstream_tls` away";
            self.note(at, place, "no upstream of this route is spoken to over TLS", hint);
        }
        Some(Some(UpstreamTls {
            ca: match ca {
                Some(ca) => Some(ca?),
                None => None,
            },
            identity: match identity {
                Some(identity) => Some(identity?),
                None => None,
            },
            server_name: server_name?,
        }))
    }

    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    pub(super) fn health(&mut self, written: Option<&file::Health>, at: &str) -> Option<Option<Health>> {
        let Some(file::Health { path, interval, timeout, healthy, unhealthy }) = written else { return Some(None) };
        let path = self.optional(path.as_ref(), &format!("{at}.path"), scalar::health_path);
        let interval = self.value(interval, &format!("{at}.interval"), scalar::duration);
        let timeout = self.value(timeout, &format!("{at}.timeout"), scalar::duration);
        let healthy = self.value(healthy, &format!("{at}.healthy"), scalar::count);
        let unhealthy = self.value(unhealthy, &format!("{at}.unhealthy"), scalar::count);
        Some(Some(Health {
            path: path?,
            interval: interval?,
            timeout: timeout?,
            healthy: healthy?.get(),
            unhealthy: unhealthy?.get(),
        }))
    }

    pub(super) fn ejection(&mut self, written: &file::Ejection, at: &str) -> Option<Ejection> {
        let failures = self.value(&written.failures, &format!("{at}.failures"), scalar::count);
        let duration = self.value(&written.duration, &format!("{at}.for"), scalar::duration);
        Some(Ejection { failures: u32::try_from(failures?.get()).unwrap_or(u32::MAX), duration: duration? })
    }
}
