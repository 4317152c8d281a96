//! Agents: where they are, how they are spoken to, and when one is left out.

use serde_saphyr::Location;

use super::{ConfigChecker, LocatedValue, collect_values, position};
use crate::config::file::{self, UpstreamMapping};
use crate::config::{
    EjectionConfig, HealthCheckConfig, UpstreamClientCert, UpstreamConfig, UpstreamTlsConfig, enum_values, scalar,
};

impl ConfigChecker<'_> {
    pub(super) fn check_upstreams(
        &mut self,
        written: &file::Spanned<file::UpstreamListSpec>,
        at: &str,
    ) -> Option<Vec<UpstreamConfig>> {
        let place = (written.defined, written.referenced);
        let list: Vec<_> = match &written.value {
            file::UpstreamListSpec::One(one) => vec![self.check_upstream(one, at, place)],
            file::UpstreamListSpec::Many(many) => {
                let places = many.iter().map(|one| (&one.value, (one.defined, one.referenced))).enumerate();
                places.map(|(index, (one, place))| self.check_upstream(one, &format!("{at}[{index}]"), place)).collect()
            }
        };
        if list.is_empty() {
            let hint = "write at least one URL, such as `http://127.0.0.1:9001/chat`";
            self.report_error(at, position(written.defined), "there is no upstream to send requests to", hint);
        }
        let all: Vec<&LocatedValue<UpstreamConfig>> = list.iter().flatten().collect();
        // Runs are spread over addresses, so of two paths at one address only the first would ever be asked.
        let hint = "list each host and port once, with a `weight` for a larger share of runs; another path takes a route of its \
                    own";
        self.report_duplicates(&all, UpstreamConfig::has_same_address, "this host and port are already used by", hint);
        for one in &all {
            if let Some(own) = self.own_listeners.iter().find(|own| one.value.leads_to(&own.value)) {
                let message = format!(
                    "this is an address of the gateway itself, {}, so requests would loop",
                    own.describe_location()
                );
                self.report_error(&one.path, one.position, message, "write the address and port of the agent");
            }
        }
        collect_values(list)
    }

    /// One upstream, where it is defined and where it is used.
    fn check_upstream(
        &mut self,
        written: &file::UpstreamSpec,
        at: &str,
        (defined, used): (Location, Location),
    ) -> Option<LocatedValue<UpstreamConfig>> {
        let mapping = match written {
            file::UpstreamSpec::Url(url) => {
                let value = self.read(url, at, position(defined), scalar::parse_upstream);
                return value.map(|value| LocatedValue::new(value, at, used));
            }
            file::UpstreamSpec::Mapping(mapping) => mapping,
        };
        let UpstreamMapping { url, weight, http } = &**mapping;
        let example = "the URL of the agent, such as `url: http://127.0.0.1:9001/chat`";
        let url = self.require_key(url.as_ref(), at, "url", example, position(defined));
        let url = url.and_then(|url| self.read_located(url, &format!("{at}.url"), scalar::parse_upstream));
        let weight = self.read_value(weight, &format!("{at}.weight"), scalar::parse_weight);
        let http = self.read_choice(http, &format!("{at}.http"), enum_values::HTTP);
        let mut url = url?;
        (url.value.weight, url.value.http) = (weight?, http?);
        Some(url)
    }

    /// Checks the TLS settings of the route. `encrypted` is set if any connection uses TLS.
    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    pub(super) fn check_upstream_tls(
        &mut self,
        written: Option<&file::Spanned<file::UpstreamTlsSpec>>,
        at: &str,
        upstreams: Option<&[UpstreamConfig]>,
    ) -> Option<Option<UpstreamTlsConfig>> {
        let Some(written) = written else { return Some(None) };
        let place = position(written.defined);
        let file::UpstreamTlsSpec { ca, cert, key, server_name } = &written.value;
        let ca = ca.as_ref().map(|ca| self.check_authorities(ca, &format!("{at}.ca")));
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => {
                Some(self.check_certificate_pair(cert, key, at).map(|(cert, key, _)| UpstreamClientCert { cert, key }))
            }
            (None, None) => None,
            _ if self.is_skipped(&format!("{at}.cert")) || self.is_skipped(&format!("{at}.key")) => Some(None),
            (cert, _) => {
                let (there, lacking) = if cert.is_some() { ("cert", "key") } else { ("key", "cert") };
                let message = format!("`{there}` is set but `{lacking}` is missing");
                self.report_error(at, place, message, "write both: a client certificate needs its private key");
                Some(None)
            }
        };
        let server_name =
            self.read_optional(server_name.as_ref(), &format!("{at}.server_name"), scalar::parse_server_name);
        if upstreams.is_some_and(|all| !all.iter().any(UpstreamConfig::uses_tls)) {
            let hint = "write `https://` in `upstream`, or remove `upstream_tls`";
            self.report_error(at, place, "no upstream of this route uses TLS", hint);
        }
        Some(Some(UpstreamTlsConfig {
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
    pub(super) fn check_health(
        &mut self,
        written: Option<&file::HealthCheckSpec>,
        at: &str,
    ) -> Option<Option<HealthCheckConfig>> {
        let Some(file::HealthCheckSpec { path, interval, timeout, healthy, unhealthy }) = written else {
            return Some(None);
        };
        let path = self.read_optional(path.as_ref(), &format!("{at}.path"), scalar::parse_health_path);
        let interval = self.read_value(interval, &format!("{at}.interval"), scalar::parse_duration);
        let timeout = self.read_value(timeout, &format!("{at}.timeout"), scalar::parse_duration);
        let healthy = self.read_value(healthy, &format!("{at}.healthy"), scalar::parse_count);
        let unhealthy = self.read_value(unhealthy, &format!("{at}.unhealthy"), scalar::parse_count);
        Some(Some(HealthCheckConfig {
            path: path?,
            interval: interval?,
            timeout: timeout?,
            healthy: healthy?.get(),
            unhealthy: unhealthy?.get(),
        }))
    }

    pub(super) fn check_ejection(&mut self, written: &file::EjectionSpec, at: &str) -> Option<EjectionConfig> {
        let failures = self.read_value(&written.failures, &format!("{at}.failures"), scalar::parse_count);
        let duration = self.read_value(&written.duration, &format!("{at}.for"), scalar::parse_duration);
        Some(EjectionConfig { failures: u32::try_from(failures?.get()).unwrap_or(u32::MAX), duration: duration? })
    }
}
