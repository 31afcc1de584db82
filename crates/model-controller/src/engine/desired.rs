//! Desired adapters of the engines of a base model.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_kit::store::Key;

use super::{AdapterName, Endpoint, Source};

/// Desired adapters of the engines of a base model. Adapters in neither list were loaded by others and stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredAdapters {
    /// Adapters to load into every engine.
    pub load: BTreeMap<AdapterName, DesiredAdapter>,
    /// Adapters to unload from every engine, with the models that loaded them.
    pub unload: BTreeMap<AdapterName, BTreeSet<Key>>,
    /// A model is about to request an adapter. Until then, the state of the engines is kept.
    pub pending: bool,
}

/// An adapter to load into every engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredAdapter {
    /// Where it is loaded from.
    pub source: Source,
    /// The models that request it.
    pub models: BTreeSet<Key>,
    /// Which copies of unknown source count as this adapter.
    pub trust: Trust,
}

/// Which copies of unknown source count: those that an engine lists although this process did not load them. A list has
/// names and no sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// All: the source has not changed since it was first loaded.
    #[default]
    Everywhere,
    /// Those on these endpoints, which loaded the new source after a change. Others may hold the old one.
    Only(Arc<BTreeSet<String>>),
}

impl Trust {
    /// Whether a copy on this endpoint counts.
    pub fn holds_for(&self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Only(proven) => proven.contains(&endpoint.url()),
        }
    }
}

impl DesiredAdapters {
    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.load.is_empty() && self.unload.is_empty()
    }

    /// Names of adapters to load or to unload.
    pub fn names(&self) -> impl Iterator<Item = &AdapterName> {
        self.load.keys().chain(self.unload.keys())
    }

    /// The models that an adapter concerns.
    pub fn models(&self, name: &AdapterName) -> impl Iterator<Item = &Key> {
        let loading = self.load.get(name).into_iter().flat_map(|adapter| &adapter.models);
        loading.chain(self.unload.get(name).into_iter().flatten())
    }
}

impl Endpoint {
    /// URL of the engine's system server, as the status shows it.
    pub fn url(&self) -> String {
        format!("http://{}", self.socket())
    }

    /// Where the engine's system server listens.
    pub fn socket(&self) -> std::net::SocketAddr {
        (self.address, SYSTEM_PORT).into()
    }
}

/// Port of the system server. Engines listen on the port that their container declares under this number.
const SYSTEM_PORT: u16 = 9090;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_become_urls() {
        assert_eq!(i32::from(SYSTEM_PORT), api_types::ports::SYSTEM);
        for (address, url) in [("10.0.1.5", "http://10.0.1.5:9090"), ("fd00::7", "http://[fd00::7]:9090")] {
            let endpoint =
                Endpoint { pod_name: "p".into(), pod: "u".into(), address: address.parse().unwrap(), ready: true };
            assert_eq!(endpoint.url(), url);
        }
    }
}
