//! What the begin of a run waits for.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::network::Network;
use crate::window::AgreedStart;

/// When what is measured begins, once all connections are open.
#[derive(Debug, Clone, Default)]
pub enum Start {
    /// On the next whole second that leaves time for the warm-up.
    #[default]
    Soon,
    /// When the wall clock shows this.
    At(SystemTime),
    /// When somebody says it who waits for several injectors.
    Agreed(StartAgreement),
}

type AgreeOnStart = dyn Fn(&Network) -> Option<AgreedStart> + Send + Sync;

/// Waits for the start of a run that several injectors share.
#[derive(Clone)]
pub struct StartAgreement(Arc<AgreeOnStart>);

impl StartAgreement {
    /// `agree` is called once the connections are open, with what is known of their ways, and
    /// returns when the start is known; without one the run is called off.
    pub fn new(agree: impl Fn(&Network) -> Option<AgreedStart> + Send + Sync + 'static) -> Self {
        Self(Arc::new(agree))
    }

    pub(super) fn wait(&self, network: &Network) -> Option<AgreedStart> {
        (self.0)(network)
    }
}

impl fmt::Debug for StartAgreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartAgreement").finish_non_exhaustive()
    }
}
