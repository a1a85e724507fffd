//! Which providers of a service are called, with what weights, and why the others are left out.

use std::collections::BTreeSet;
use std::fmt;

use flow::dial::Address;

use super::overrides::Overrides;
use super::registry::{ANY, RegistryUrl, Service};
use crate::discovery::Server;

/// Providers that are called at most.
pub const PROVIDERS_MAX: usize = 1000;
/// What a provider has that says nothing of its weight.
const WEIGHT_USUAL: u32 = 100;
/// A larger weight counts as this.
const WEIGHT_MAX: u32 = 1_000_000;
/// The one protocol in which calls are made here.
const PROTOCOL: &str = "dubbo";
/// The one serialization in which calls are made here.
const SERIALIZATION: &str = "hessian2";

/// Why a provider is not called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Its node is not the URL of a provider.
    Unreadable,
    /// It is of another version or group.
    OtherService {
        /// As the registry has it.
        version: Option<String>,
        /// As the registry has it.
        group: Option<String>,
    },
    /// It speaks another protocol, as `tri`.
    Protocol(String),
    /// It takes calls by another path than the interface.
    Path(String),
    /// It takes another serialization alone, as `kryo`.
    Serialization(String),
    /// It is disabled, by itself or by a rule of the registry.
    Disabled,
    /// Its weight is 0, by itself or by a rule of the registry.
    Weightless,
    /// There are enough others.
    TooMany,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("its node is not the URL of a provider"),
            Self::OtherService { version, group } => {
                write!(f, "it is of {}", service_words(version.as_deref(), group.as_deref()))
            }
            Self::Protocol(protocol) => write!(f, "it speaks {protocol}, and not dubbo"),
            Self::Path(path) => write!(f, "it takes calls by the path {path}"),
            Self::Serialization(of) => write!(f, "its serialization is {of}, and not hessian2"),
            Self::Disabled => f.write_str("it is disabled"),
            Self::Weightless => f.write_str("its weight is 0"),
            Self::TooMany => write!(f, "{PROVIDERS_MAX} others are called"),
        }
    }
}

/// A version and a group in words.
fn service_words(version: Option<&str>, group: Option<&str>) -> String {
    let version = version.map_or("no version".to_owned(), |version| format!("version {version}"));
    let group = group.map_or("no group".to_owned(), |group| format!("group {group}"));
    format!("{version} and {group}")
}

/// There is nobody to be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProvider {
    /// The registry has no provider of the interface.
    #[error("no provider of {0} is registered")]
    Nobody(String),
    /// All speak other protocols.
    #[error("the providers of {interface} speak only {protocols}: calls here are of dubbo")]
    OtherProtocol {
        /// The interface that was looked for.
        interface: String,
        /// The protocols that are spoken, with commas between them.
        protocols: String,
    },
    /// None is of that version and group.
    #[error("no provider of {interface} is of {wanted}: there are {there}")]
    OtherService {
        /// The interface that was looked for.
        interface: String,
        /// The version and group that were looked for.
        wanted: String,
        /// Those that there are.
        there: String,
    },
    /// None has the method.
    #[error("no provider of {interface} has the method {method}: there are {there}")]
    NoMethod {
        /// The interface that was looked for.
        interface: String,
        /// The method that was looked for.
        method: String,
        /// Those that there are.
        there: String,
    },
    /// All are left out, each for a reason of its own.
    #[error("no provider of {interface} can be called: {why}")]
    AllLeftOut {
        /// The interface that was looked for.
        interface: String,
        /// The first addresses with their reasons.
        why: String,
    },
}

/// Providers that an error names.
const NAMED_MAX: usize = 5;

/// The providers of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderList {
    /// Those that are called, each address once.
    pub called: Vec<Server>,
    /// The others, by their address, or by the name of their node where that is no URL.
    pub left_out: Vec<(String, LeftOut)>,
    /// The methods of those that are called; nothing where one does not say them, or takes any.
    methods: Option<BTreeSet<String>>,
}

impl ProviderList {
    /// Decides which providers are called, by the nodes of a registry.
    pub fn new<'a>(
        service: &Service,
        nodes: impl Iterator<Item = &'a str>,
        overrides: &Overrides,
    ) -> Self {
        let mut list = Self { methods: Some(BTreeSet::new()), ..Self::default() };
        for node in nodes {
            match RegistryUrl::of_node(node) {
                Some(url) => list.add(service, url, overrides),
                None => {
                    let name = node.chars().take(100).collect();
                    list.left_out.push((name, LeftOut::Unreadable));
                }
            }
        }
        list
    }

    fn add(&mut self, service: &Service, mut url: RegistryUrl, overrides: &Overrides) {
        let address = Address::Tcp { host: url.host.clone(), port: url.port };
        match weight(service, &mut url, overrides) {
            Err(why) => self.left_out.push((address.to_string(), why)),
            Ok(_) if self.called.iter().any(|known| known.address == address) => {}
            Ok(_) if self.called.len() >= PROVIDERS_MAX => {
                self.left_out.push((address.to_string(), LeftOut::TooMany));
            }
            Ok(weight) => {
                let is_any = |method: &str| method == ANY;
                match &mut self.methods {
                    Some(_) if url.items("methods").all(is_any) => self.methods = None,
                    Some(known) => known.extend(url.items("methods").map(str::to_owned)),
                    None => {}
                }
                self.called.push(Server { address, weight });
            }
        }
    }

    /// Says why nobody can be called, where that is so.
    ///
    /// # Errors
    /// Nobody can be called.
    pub fn check(&self, service: &Service, method: &str) -> Result<(), NoProvider> {
        let interface = service.interface.clone();
        if !self.called.is_empty() {
            let lacks = self.methods.as_ref().filter(|methods| !methods.contains(method));
            return lacks.map_or(Ok(()), |methods| {
                let there = methods.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                Err(NoProvider::NoMethod { interface, method: method.to_owned(), there })
            });
        }
        let whys = || self.left_out.iter().map(|(_, why)| why);
        if whys().next().is_none() {
            return Err(NoProvider::Nobody(interface));
        }
        let others: BTreeSet<_> = whys().filter(|why| is_of_other_service(why)).collect();
        if whys().all(is_of_other_service) {
            let wanted = service_words(service.version.as_deref(), service.group.as_deref());
            let there = others.iter().map(|why| why.to_string().replacen("it is of ", "", 1));
            let there = there.take(NAMED_MAX).collect::<Vec<_>>().join("; ");
            return Err(NoProvider::OtherService { interface, wanted, there });
        }
        let protocol = |why: &LeftOut| match why {
            LeftOut::Protocol(protocol) => Some(protocol.clone()),
            _ => None,
        };
        // Those of other versions say nothing of this one.
        let own = whys().filter(|why| !is_of_other_service(why)).map(protocol);
        if let Some(protocols) = own.collect::<Option<BTreeSet<_>>>() {
            let protocols = protocols.into_iter().collect::<Vec<_>>().join(", ");
            return Err(NoProvider::OtherProtocol { interface, protocols });
        }
        let why = self.left_out.iter().take(NAMED_MAX);
        let why = why.map(|(address, why)| format!("{address}: {why}")).collect::<Vec<_>>();
        Err(NoProvider::AllLeftOut { interface, why: why.join("; ") })
    }
}

fn is_of_other_service(why: &LeftOut) -> bool {
    matches!(why, LeftOut::OtherService { .. })
}

/// The weight of a provider that can be called.
fn weight(service: &Service, url: &mut RegistryUrl, overrides: &Overrides) -> Result<u32, LeftOut> {
    if !service.is_of(url) {
        let of = |text: Option<&str>| text.map(str::to_owned);
        return Err(LeftOut::OtherService { version: of(url.version()), group: of(url.group()) });
    }
    if url.protocol != PROTOCOL {
        return Err(LeftOut::Protocol(url.protocol.clone()));
    }
    if url.port == 0 {
        return Err(LeftOut::Unreadable);
    }
    if url.path != service.interface {
        return Err(LeftOut::Path(url.path.clone()));
    }
    if let Some(of) = url.parameter("serialization").filter(|of| *of != SERIALIZATION)
        && !url.items("prefer.serialization").any(|item| item == SERIALIZATION)
    {
        return Err(LeftOut::Serialization(of.to_owned()));
    }
    overrides.apply(url);
    // A parameter `disabled` hides one `enabled`.
    let is_disabled = match url.parameter("disabled") {
        Some(_) => url.is_true("disabled", false),
        None => !url.is_true("enabled", true),
    };
    if is_disabled {
        return Err(LeftOut::Disabled);
    }
    let weight = match url.parameter("weight") {
        Some(text) => text.parse::<i64>().unwrap_or(WEIGHT_USUAL.into()),
        None => WEIGHT_USUAL.into(),
    };
    match u32::try_from(weight.clamp(0, WEIGHT_MAX.into())) {
        Ok(0) | Err(_) => Err(LeftOut::Weightless),
        Ok(weight) => Ok(weight),
    }
}

#[cfg(test)]
mod tests {
    use super::{LeftOut, NoProvider, Overrides, ProviderList, Service};

    fn service() -> Service {
        Service { interface: "i".into(), version: Some("1.0".into()), group: None }
    }

    fn list(nodes: &[&str], rules: &[&str]) -> ProviderList {
        let overrides = Overrides::of_nodes(rules.iter().copied(), &service());
        ProviderList::new(&service(), nodes.iter().copied(), &overrides)
    }

    fn called(list: &ProviderList) -> Vec<(String, u32)> {
        list.called.iter().map(|server| (server.address.to_string(), server.weight)).collect()
    }

    fn why_none(nodes: &[&str]) -> String {
        list(nodes, &[]).check(&service(), "find").unwrap_err().to_string()
    }

    #[test]
    fn providers_are_called_by_their_weights_and_those_left_out_say_why() {
        let nodes = [
            "dubbo://10.0.0.1:1/i?version=1.0",
            "dubbo://10.0.0.1:1/i?version=1.0&methods=find",
            "dubbo://10.0.0.2:1/i?version=1.0&weight=50",
            "dubbo://10.0.0.3:1/i?version=1.0&weight=0",
            "dubbo://10.0.0.4:1/i?version=1.0&disabled=true",
            "dubbo://10.0.0.5:1/i?version=1.0&enabled=false",
            "tri://10.0.0.6:1/i?version=1.0",
            "dubbo://10.0.0.7:1/i",
            "dubbo://10.0.0.8:1/shop/i?version=1.0",
            "dubbo://10.0.0.9:1/i?version=1.0&serialization=kryo",
            "dubbo://[fd00::1]:1/i?version=1.0&serialization=x&prefer.serialization=x,hessian2",
            "nonsense",
        ];
        let of = list(&nodes, &["override://10.0.0.2:1/i?version=1.0&weight=7"]);
        let wanted = [("10.0.0.1:1", 100), ("10.0.0.2:1", 7), ("[fd00::1]:1", 100)];
        assert_eq!(called(&of), wanted.map(|(address, weight)| (address.to_owned(), weight)));
        let other = LeftOut::OtherService { version: None, group: None };
        let whys = [
            LeftOut::Weightless,
            LeftOut::Disabled,
            LeftOut::Disabled,
            LeftOut::Protocol("tri".into()),
            other,
            LeftOut::Path("shop/i".into()),
            LeftOut::Serialization("kryo".into()),
            LeftOut::Unreadable,
        ];
        assert_eq!(of.left_out.iter().map(|(_, why)| why.clone()).collect::<Vec<_>>(), whys);
        assert_eq!(of.check(&service(), "whatever"), Ok(()), "one does not say its methods");
    }

    #[test]
    fn whoever_has_nobody_to_call_is_told_why() {
        assert_eq!(list(&[], &[]).check(&service(), "f"), Err(NoProvider::Nobody("i".into())));
        for (nodes, words) in [
            (&["tri://h:1/i?version=1.0", "dubbo://h:2/i"][..], "speak only tri"),
            (&["dubbo://h:2/i?group=a", "tri://h:1/i?version=2.0"], "version 2.0 and no group"),
            (
                &["dubbo://h:2/i?group=a"],
                "is of version 1.0 and no group: there are no version and group a",
            ),
            (&["dubbo://h:2/i?version=1.0&weight=0"], "h:2: its weight is 0"),
            (
                &["dubbo://h:2/i?version=1.0&methods=save,drop"],
                "has the method find: there are drop, save",
            ),
        ] {
            let told = why_none(nodes);
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn there_are_only_so_many() {
        let nodes: Vec<_> =
            (1..=1001).map(|port| format!("dubbo://h:{port}/i?version=1.0")).collect();
        let nodes: Vec<_> = nodes.iter().map(String::as_str).collect();
        let of = list(&nodes, &[]);
        assert_eq!(of.called.len(), 1000);
        assert_eq!(of.left_out, [("h:1001".to_owned(), LeftOut::TooMany)]);
    }
}
