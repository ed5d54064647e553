//! An intent in words, of which only what changed is put into words again: a thousand balancers are megabytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Balancer, Intent, Uid};

/// Every balancer as it was last put into words.
#[derive(Debug, Default)]
pub(super) struct Words(BTreeMap<Uid, (Arc<Balancer>, Vec<u8>)>);

impl Words {
    /// To the letter what `serde_json` would write of the whole.
    pub(super) fn of(&mut self, intent: &Intent) -> serde_json::Result<Vec<u8>> {
        self.0.retain(|uid, _| intent.balancers.contains_key(uid));
        let nothing = Intent { balancers: BTreeMap::new(), ..*intent };
        let mut text = serde_json::to_vec(&nothing)?;
        // The balancers are the last of it: `{...,"balancers":{}}`.
        text.truncate(text.len().saturating_sub(2));
        for (number, (uid, balancer)) in intent.balancers.iter().enumerate() {
            if number > 0 {
                text.push(b',');
            }
            text.extend(serde_json::to_vec(uid)?);
            text.push(b':');
            text.extend_from_slice(self.one(uid, balancer)?);
        }
        text.extend(b"}}");
        Ok(text)
    }

    fn one(&mut self, uid: &Uid, balancer: &Arc<Balancer>) -> serde_json::Result<&[u8]> {
        if !self.0.get(uid).is_some_and(|(held, _)| held == balancer) {
            let words = serde_json::to_vec(&**balancer)?;
            self.0.insert(uid.clone(), (Arc::clone(balancer), words));
        }
        Ok(self.0.get(uid).map_or(&[], |(_, words)| words))
    }
}
