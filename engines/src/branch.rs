//! A branch: one named path of a session (contract §2, lanes.md).

use forkline_model::{
    BranchName, BranchScan, Entry, EntryId, EntryQuery, EntryType, Json, Limit, NewEntry, TypeName,
    Write, policy,
};

use crate::context::Context;
use crate::error::Result;
use crate::session::{Mutation, Session};

/// A named path: its tip, queries along it, direct append. Holds no state of its own.
///
/// # Example
///
/// ```
/// use forkline_engines::{Context, CreateOptions, MemoryRepo, Repo};
/// use forkline_model::{BranchName, EntryQuery, Json};
///
/// let cx = Context::new();
/// let session = MemoryRepo::new().create(&CreateOptions::default(), &cx)?;
/// let main = session.create_branch(&BranchName::new("main")?, None, &cx)?;
/// assert_eq!(main.tip()?, None);
/// let question = Json::parse(r#"{"role":"user","content":"Why?"}"#).expect("it is JSON");
/// let id = main.append_message(&question, &cx)?;
/// assert_eq!(main.tip()?, Some(id.clone()));
/// let newest = main.find_entry(&EntryQuery::default())?.expect("there is one");
/// assert_eq!(newest.id, id);
/// # Ok::<(), forkline_engines::Error>(())
/// ```
#[derive(Clone)]
pub struct Branch {
    session: Session,
    name: BranchName,
}

impl Branch {
    pub(crate) fn new(session: Session, name: BranchName) -> Self {
        Self { session, name }
    }

    /// The name.
    pub fn name(&self) -> &BranchName {
        &self.name
    }

    /// The current tip.
    ///
    /// # Errors
    /// *Unknown branch* when it was deleted, *corrupt lane* when the tip cannot be read.
    pub fn tip(&self) -> Result<Option<EntryId>> {
        let value = self.session.value(&policy::tip_address(&self.name))?;
        let Some((_, tip)) = value else {
            return Err(forkline_model::Error::UnknownBranch { branch: self.name.clone() }.into());
        };
        Ok(policy::read_tip(&self.name, &tip)?)
    }

    /// Entries along the path from the tip to the root; none for a null tip.
    ///
    /// # Errors
    /// Those of [`Branch::tip`], *unknown entry* for a tip that names none.
    pub fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        match self.tip()? {
            Some(tip) => self
                .session
                .scan_branch(&BranchScan { query: query.clone(), ..BranchScan::from(tip) }),
            None => Ok(Vec::new()),
        }
    }

    /// The first that [`Branch::find_entries`] gives.
    pub fn find_entry(&self, query: &EntryQuery) -> Result<Option<Entry>> {
        let query = EntryQuery { limit: Limit::new(1)?, ..query.clone() };
        Ok(self.find_entries(&query)?.into_iter().next())
    }

    /// Appends a message at the tip and moves the tip, in one commit.
    ///
    /// `message` is the message object; it is kept byte for byte.
    pub fn append_message(&self, message: &Json, cx: &Context) -> Result<EntryId> {
        let payload = Json::parse(&format!("{{\"message\":{message}}}"));
        self.append(EntryType::Message, None, payload.expect("an object around JSON is JSON"), cx)
    }

    /// Appends a custom entry at the tip and moves the tip, in one commit.
    pub fn append_custom(
        &self,
        custom_type: TypeName,
        data: Option<&Json>,
        cx: &Context,
    ) -> Result<EntryId> {
        let payload = data.map_or_else(|| "{}".to_owned(), |data| format!("{{\"data\":{data}}}"));
        let payload = Json::parse(&payload).expect("an object around JSON is JSON");
        self.append(EntryType::Custom, Some(custom_type), payload, cx)
    }

    /// Appends any entry at the tip and moves the tip, in one commit.
    pub fn append(
        &self,
        entry_type: EntryType,
        custom_type: Option<TypeName>,
        payload: Json,
        cx: &Context,
    ) -> Result<EntryId> {
        let id = self.session.next_id(None)?;
        self.append_as(id, entry_type, custom_type, payload, cx)
    }

    /// The same with an id of the caller's.
    pub fn append_as(
        &self,
        id: EntryId,
        entry_type: EntryType,
        custom_type: Option<TypeName>,
        payload: Json,
        cx: &Context,
    ) -> Result<EntryId> {
        self.session.mutate(cx, |mutation| {
            let entry = NewEntry::new(id.clone(), self.tip()?, entry_type, custom_type, payload)?;
            self.commit_at_tip(mutation, entry)
        })?;
        Ok(id)
    }

    fn commit_at_tip(&self, mutation: &mut Mutation, entry: NewEntry) -> Result<()> {
        let address = policy::tip_address(&self.name);
        let value = Json::string(entry.id.as_str());
        mutation.commit(&[Write::Entry(entry), Write::SetValue { address, value }])?;
        Ok(())
    }
}
