//! A session whose file is still one of an older version (formats §2): what the world has to know
//! of it besides its state.
//!
//! How such a file is imported is no affair of the model: who plants one says what it comes to.

use std::collections::BTreeMap;

use crate::address::EntryId;
use crate::error::Result;
use crate::json::Json;
use crate::metadata::Scope;
use crate::state::State;
use crate::usage::{NewUsage, Usage};
use crate::write::Write;

/// What the details of the row with the imported usage say.
const IMPORT_DETAILS: &str = r#"{"source":"v3-import"}"#;

/// A legacy session that no commit has upgraded yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Legacy {
    /// The ids of the file that became entries, and the ids that these have in the state.
    pub ids: BTreeMap<EntryId, EntryId>,
    /// The usage that its records carry; none if it cannot be summed.
    pub usage: Option<Usage>,
    /// The id of the ledger row that the upgrade writes that usage to.
    pub usage_id: EntryId,
    /// Whether a line of the file is damaged.
    pub is_damaged: bool,
}

impl Legacy {
    pub(crate) fn can_be_opened(&self) -> bool {
        !self.is_damaged && self.usage.is_some()
    }

    /// The row of the imported usage.
    pub(crate) fn usage_row(&self) -> Result<Option<Write>> {
        let details = Json::parse(IMPORT_DETAILS).expect("the constant is JSON");
        let row = self.usage.map(|usage| {
            let id = self.usage_id.clone();
            NewUsage::new(id, None, true, usage.to_json(), Some(details)).map(Write::Usage)
        });
        row.transpose()
    }

    /// A scope that names an entry as the file does, as one of the state. An id that only an
    /// import minted is not stable: it becomes one that no entry has.
    pub(crate) fn in_state(&self, scope: &Scope, state: &State) -> Scope {
        let Scope::Branch { branch, entry: Some(entry), position } = scope else {
            return scope.clone();
        };
        let nobody = || {
            let mut free = (0..).map(|n| EntryId::new(format!("no entry {n}")));
            let free = free.find_map(|id| id.ok().filter(|id| state.entry(id).is_none()));
            free.expect("a state has fewer entries than there are numbers")
        };
        let entry = Some(self.ids.get(entry).cloned().unwrap_or_else(nobody));
        Scope::Branch { branch: branch.clone(), entry, position: *position }
    }
}
