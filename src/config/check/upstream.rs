//! Checks a route's upstreams and their TLS settings.

use crate::config::checker::{ConfigChecker, LocatedValue, Place};
use crate::config::file::{UpstreamListSpec, UpstreamMapping, UpstreamSpec, UpstreamTlsSpec};
use crate::config::section::{FileValue, Section};
use crate::config::{UpstreamClientCert, UpstreamConfig, UpstreamTlsConfig};

impl FileValue for UpstreamSpec {
    type Checked = UpstreamConfig;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<UpstreamConfig> {
        match self {
            UpstreamSpec::Url(url) => checker.read(url, at),
            UpstreamSpec::Mapping(mapping) => mapping.check(checker, at),
        }
    }
}

impl FileValue for UpstreamMapping {
    type Checked = UpstreamConfig;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<UpstreamConfig> {
        let keys = self.check_keys(checker, at);
        Some(UpstreamConfig { weight: keys.weight?, http: keys.http?, ..keys.url? })
    }
}

impl FileValue for UpstreamTlsSpec {
    type Checked = UpstreamTlsConfig;

    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<UpstreamTlsConfig> {
        let keys = self.check_keys(checker, at);
        if let (Some(Some(ca)), Some(written)) = (&keys.ca, &self.ca) {
            checker.check_authorities(ca, &at.value_of("ca", written));
        }
        let identity = match (&self.cert, &self.key) {
            (Some(written_cert), Some(written_key)) => {
                let (cert, key) = keys.cert?.zip(keys.key?)?;
                let located_cert = LocatedValue::new(cert.as_path(), at.value_of("cert", written_cert));
                let located_key = LocatedValue::new(key.as_path(), at.value_of("key", written_key));
                checker.check_certificate_pair(&located_cert, &located_key)?;
                Some(UpstreamClientCert { cert, key })
            }
            (None, None) => None,
            _ if checker.is_skipped(&at.key("cert").path) || checker.is_skipped(&at.key("key").path) => return None,
            (cert, _) => {
                let (set, missing) = if cert.is_some() { ("cert", "key") } else { ("key", "cert") };
                let message = format!("`{set}` is set but `{missing}` is missing");
                checker.report_error(at, message, "write both: a client certificate needs its private key");
                return None;
            }
        };
        Some(UpstreamTlsConfig { ca: keys.ca?, identity, server_name: keys.server_name? })
    }
}

impl ConfigChecker<'_> {
    /// Checks that a route's addresses are unique and do not lead to the gateway itself.
    pub(super) fn check_upstream_addresses(&mut self, list: &UpstreamListSpec, at: &Place) {
        let entries = list.entries(at);
        if entries.is_empty() {
            let hint = "write at least one URL, such as `http://127.0.0.1:9001/chat`";
            self.report_error(at, "there is no upstream to send requests to", hint);
        }
        let address = |(place, upstream): (Place, &UpstreamSpec)| match upstream {
            UpstreamSpec::Url(url) => Some(LocatedValue::new(self.peek(url)?, place)),
            UpstreamSpec::Mapping(mapping) => self.locate(mapping.url.as_ref(), &place.key("url")),
        };
        let all: Vec<_> = entries.into_iter().filter_map(address).collect();
        // Runs are balanced by address, so only the first of two paths at one address would be used.
        let hint = "list each host and port once, with a `weight` for a larger share of runs; another path takes a route of its \
                    own";
        self.report_conflicts(&all, UpstreamConfig::has_same_address, "this host and port are already used by", hint);
        for one in &all {
            if let Some(own) = self.own_listeners.iter().find(|own| one.value.leads_to(&own.value)) {
                let message = format!(
                    "this is an address of the gateway itself, {}, so requests would loop",
                    own.describe_location()
                );
                self.report_error(&one.place.at_use(), message, "write the address and port of the agent");
            }
        }
    }
}
