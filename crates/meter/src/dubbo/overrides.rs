//! Rules of a registry that override parameters of providers (`OverrideConfigurator` and
//! `AbsentConfigurator` of Dubbo): nodes of `configurators`, as
//! `override://10.0.0.7:20880/INTERFACE?weight=50` or `override://0.0.0.0/INTERFACE?weight=50`.

use super::registry::{ANY, RegistryUrl, Service};

/// Parameters of a rule that say of whom it is, and not what is to be.
const CONDITIONS: [&str; 11] = [
    "anyhost",
    "application",
    "category",
    "check",
    "compatible_config",
    "configVersion",
    "dynamic",
    "enabled",
    "group",
    "side",
    "version",
];

/// The rules of a service, in the order in which they are applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides(Vec<RegistryUrl>);

impl Overrides {
    /// Those among the nodes that are rules of the service. One that overrides nothing takes all
    /// before it away.
    pub fn of_nodes<'a>(nodes: impl Iterator<Item = &'a str>, service: &Service) -> Self {
        let mut rules = Vec::new();
        for url in nodes.filter_map(RegistryUrl::of_node) {
            let is_rule = matches!(&*url.protocol, "override" | "absent") && service.is_of(&url);
            if !is_rule {
                continue;
            }
            if url.parameters().all(|(name, _)| name == "anyhost") {
                rules.clear();
            } else {
                rules.push(url);
            }
        }
        let priority =
            |url: &RegistryUrl| url.parameter("priority").and_then(|text| text.parse::<i64>().ok());
        // 0.0.0.0 comes before all other hosts, so that what is of one host wins.
        rules.sort_by(|one: &RegistryUrl, other| {
            one.host.cmp(&other.host).then(priority(one).cmp(&priority(other)))
        });
        Self(rules)
    }

    /// Applies the rules to a provider.
    pub fn apply(&self, provider: &mut RegistryUrl) {
        for rule in &self.0 {
            if !is_for(rule, provider) {
                continue;
            }
            for (name, value) in rule.parameters() {
                let is_condition = CONDITIONS.contains(&name) || name.starts_with('~');
                let is_there = rule.protocol == "absent" && provider.parameter(name).is_some();
                if !is_condition && !is_there {
                    provider.set_parameter(name, value);
                }
            }
        }
    }
}

/// Whether a rule is for a provider, called by a consumer without an application's name. One for
/// the host of a consumer, which has no port, is for nobody here.
fn is_for(rule: &RegistryUrl, provider: &RegistryUrl) -> bool {
    let is_address = match rule.port {
        0 => rule.is_of_any_host(),
        port => port == provider.port && (rule.is_of_any_host() || rule.host == provider.host),
    };
    let is_open = |name: &str, own: Option<&str>| {
        rule.parameter(name).is_none_or(|value| value == ANY || Some(value) == own)
    };
    let mut conditions = rule.parameters().filter_map(|(name, value)| {
        name.strip_prefix('~').filter(|_| value != ANY).map(|name| (name, value))
    });
    is_address
        && rule.is_true("enabled", true)
        && is_open("application", None)
        && is_open("side", Some("consumer"))
        && conditions.all(|(name, value)| provider.parameter(name) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::{Overrides, RegistryUrl, Service};

    /// The weight of a provider at 10.0.0.7:20880, and whether it is disabled.
    fn applied(rules: &[&str]) -> (Option<String>, bool) {
        let service = Service { interface: "i".into(), version: None, group: None };
        let overrides = Overrides::of_nodes(rules.iter().copied(), &service);
        let name = "dubbo://10.0.0.7:20880/i?weight=100&timeout=9";
        let mut provider = RegistryUrl::of_node(name).unwrap();
        overrides.apply(&mut provider);
        let weight = provider.parameter("weight").filter(|weight| *weight != "100");
        (weight.map(Into::into), provider.is_true("disabled", false))
    }

    fn weight(rules: &[&str]) -> Option<String> {
        applied(rules).0
    }

    #[test]
    fn a_rule_is_for_one_address_one_port_or_all() {
        assert_eq!(weight(&["override://10.0.0.7:20880/i?weight=5"]).as_deref(), Some("5"));
        assert_eq!(
            weight(&["override://0.0.0.0/i?weight=5&category=configurators"]).as_deref(),
            Some("5")
        );
        assert_eq!(weight(&["override://0.0.0.0:20880/i?weight=5"]).as_deref(), Some("5"));
        assert_eq!(weight(&["override://10.0.0.8:20880/i?weight=5"]), None);
        assert_eq!(weight(&["override://10.0.0.7:20881/i?weight=5"]), None);
        assert_eq!(weight(&["override://10.0.0.7/i?weight=5"]), None, "the host of a consumer");
        assert!(applied(&["override%3A%2F%2F10.0.0.7%3A20880%2Fi%3Fdisabled%3Dtrue"]).1);
    }

    #[test]
    fn a_rule_is_for_those_that_it_names() {
        for (query, is_for) in [
            ("weight=5&enabled=false", false),
            ("weight=5&application=shop", false),
            ("weight=5&application=*", true),
            ("weight=5&side=provider", false),
            ("weight=5&side=consumer", true),
            ("weight=5&~timeout=9", true),
            ("weight=5&~timeout=8", false),
            ("weight=5&version=2", false),
        ] {
            let rule = format!("override://0.0.0.0/i?{query}");
            assert_eq!(weight(&[&rule]).is_some(), is_for, "{query}");
        }
        assert_eq!(weight(&["absent://0.0.0.0/i?weight=5"]), None);
        assert_eq!(weight(&["router://0.0.0.0/i?weight=5"]), None);
    }

    #[test]
    fn what_is_of_one_host_wins_and_then_what_has_priority() {
        let one = "override://10.0.0.7:20880/i?weight=5";
        let all = "override://0.0.0.0/i?weight=6";
        assert_eq!(weight(&[one, all]).as_deref(), Some("5"));
        assert_eq!(weight(&[all, one]).as_deref(), Some("5"));
        let first = "override://0.0.0.0/i?weight=7&priority=2";
        assert_eq!(weight(&[first, all]).as_deref(), Some("7"));
        // One that overrides nothing takes those before it away.
        assert_eq!(weight(&[all, "override://0.0.0.0/i?anyhost=true"]), None);
    }
}
