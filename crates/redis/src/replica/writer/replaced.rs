//! What a base is to the generation whose place it takes: whether the master that sends it is
//! believed, and whether that generation is pinned.

use super::super::answers::Lineage;
use super::super::directory::Pin;
use super::super::inbox::BaseHead;
use super::super::keys::Keys;
use super::{NewBase, Writer};

/// A generation that a base of nothing takes the place of is pinned, unless it began with nothing
/// itself and has grown by less than this since.
const PRECIOUS_BYTES: u64 = 64 << 10;

impl Writer {
    /// Whether a master that sends this base is believed, and how many keys it has or had.
    pub(super) fn believed(&self, head: &BaseHead) -> Option<Keys> {
        let before = self.keys();
        match head.lineage {
            Lineage::Lacks { .. } => {
                Some(Keys::Lost(before.map_or(head.keys.unwrap_or(0), Keys::count)))
            }
            _ => Keys::of_base(before, head.keys, self.limits.accept_percent),
        }
    }

    /// What becomes of the generation whose place a base takes; says why where it is pinned.
    pub(super) fn pin(&self, base: &NewBase, keys: Option<Keys>) -> Pin {
        let path = base.path.display().to_string();
        let (_, increments) = self.directory.sizes();
        let had_any = self.directory.has_keys() || increments > PRECIOUS_BYTES;
        let was_lost = matches!(self.keys(), Some(Keys::Lost(_)));
        let mut pin = if self.pins { Pin::WithinLimit } else { Pin::No };
        match base.head.lineage {
            Lineage::Lacks { has, confirmed } => {
                tracing::error!(
                    path,
                    has,
                    confirmed,
                    "the master has come back without what was confirmed between these offsets: \
                     the generation before is pinned, and nothing is acknowledged until weir redis \
                     accept"
                );
                // What is not accepted yet was never confirmed.
                pin = pin.max(if was_lost { Pin::WithinLimit } else { Pin::Always });
            }
            Lineage::Unknown if had_any => {
                tracing::warn!(
                    path,
                    "the master has another history, as one that was started again: the generation \
                     before is pinned, because it may have what the master lacks"
                );
                pin = pin.max(Pin::WithinLimit);
            }
            Lineage::Unknown | Lineage::Continued => {}
        }
        if base.check.is_of_nothing() && had_any {
            tracing::error!(
                path,
                "the master has come back with nothing: the generation before is pinned, and its \
                 data set can be had from there"
            );
            pin = pin.max(Pin::WithinLimit);
        }
        if let (Some(Keys::Accepted(_)), Some(Keys::Awaited(keys))) = (self.keys(), keys) {
            let now = base.head.keys;
            tracing::error!(
                path,
                keys,
                now,
                "the master has come back with too few keys: the generation before is pinned, and \
                 nothing is acknowledged until they are back, or weir redis accept"
            );
            pin = pin.max(Pin::WithinLimit);
        }
        pin
    }
}
