//! What a fork of a pinned source selects (contract §3.1 to §3.5), and its way into the stage.

use std::path::Path;

use forkline_model::address::SEQ_MAX;
use forkline_model::policy::{self, Keep, LaneRows, LaneShape};
use forkline_model::{
    Address, BranchName, EntryId, Error as ModelError, ForkOptions, Json, LaneAudit, Position,
    Scope, StoreKind,
};
use rusqlite::{Connection, params};
use serde::de::IgnoredAny;

use super::commit::signed;

use super::index::{BranchIndex, Span, Spot};
use super::open::SOURCE;
use super::reads::Reads;
use super::rows::{At, failed, staging_failed};
use super::select::Functions;
use super::stage;
use crate::context::{Context, Progress};
use crate::error::Result;

// Content of `stage::LARGE_BYTES` or more is left empty here and fetched row by row: a statement
// over many rows still holds a row twice while the search for the next one loads its neighbours.

/// All entries of a session, in seq order.
pub(super) const ALL_ENTRIES: &str = "INSERT INTO main.entries \
    (seq, id, parent_id, type, custom_type, timestamp, payload) \
    SELECT seq, id, parent_id, type, custom_type, timestamp, \
    CASE WHEN octet_length(payload) < 65536 THEN payload ELSE '' END \
    FROM src.entries INDEXED BY ix_entry_seq WHERE session_id = ?1 \
    AND forkline_entry(id, parent_id, seq, type, custom_type, timestamp, \
    CASE WHEN octet_length(payload) < 65536 THEN payload END) ORDER BY seq";

/// The entries of one part of a path, in seq order.
pub(super) const SPAN_ENTRIES: &str = "INSERT INTO main.entries \
    (seq, id, parent_id, type, custom_type, timestamp, payload) \
    SELECT e.seq, e.id, e.parent_id, e.type, e.custom_type, e.timestamp, \
    CASE WHEN octet_length(e.payload) < 65536 THEN e.payload ELSE '' END \
    FROM src.branch_entries AS b INDEXED BY ix_be_seq \
    CROSS JOIN src.entries AS e ON e.session_id = b.session_id AND e.id = b.entry_id \
    WHERE b.session_id = ?1 AND b.branch_id = ?2 AND b.entry_seq > ?3 AND b.entry_seq <= ?4 \
    AND forkline_entry(e.id, e.parent_id, e.seq, e.type, e.custom_type, e.timestamp, \
    CASE WHEN octet_length(e.payload) < 65536 THEN e.payload END) \
    ORDER BY b.entry_seq";

/// True, or an error for a damaged row.
macro_rules! row_is_sound {
    ($kind:literal) => {
        concat!(
            "forkline_row(",
            $kind,
            ", namespace, key, seq, CASE WHEN octet_length(value) < 65536 THEN value END)"
        )
    };
}

/// What the classifier keeps of values or elements. `{prefilter}` only spares calls: it leaves
/// out nothing that the classifier would keep. Nested `CASE` has an order of evaluation that
/// `AND` has not: a row that is left out is not judged.
macro_rules! keep_rows {
    ($to:literal, $from:literal, $kind:literal) => {
        concat!(
            "INSERT INTO main.",
            $to,
            " (seq, namespace, key, value) SELECT seq, namespace, key, \
             CASE forkline_fate(",
            $kind,
            ", namespace, key) WHEN 3 THEN ?2 WHEN 4 THEN ?3 \
             ELSE CASE WHEN octet_length(value) < 65536 THEN value ELSE '' END END FROM src.",
            $from,
            " WHERE session_id = ?1 AND {prefilter} AND CASE forkline_fate(",
            $kind,
            ", namespace, key) WHEN 0 THEN 0 \
             WHEN 2 THEN CASE WHEN EXISTS (SELECT 1 FROM main.entries AS e WHERE e.id = key) \
             THEN ",
            row_is_sound!($kind),
            " ELSE 0 END ELSE ",
            row_is_sound!($kind),
            " END"
        )
    };
}

pub(super) const KEEP_VALUES: &str = keep_rows!("vals", "scalar_values", "0");
pub(super) const KEEP_ELEMENTS: &str = keep_rows!("elements", "list_values", "1");

/// In tree scope: all but what no fork copies.
pub(super) const TREE_PREFILTER: &str = "NOT (namespace >= 'pi.op.' AND namespace < 'pi.op/') \
    AND NOT (namespace >= 'pi.pending.' AND namespace < 'pi.pending/') \
    AND namespace <> 'pi.result'";
/// In branch scope: what may be reserved, no application state.
pub(super) const BRANCH_PREFILTER: &str = "namespace >= 'pi' AND namespace < 'pi/'";

/// The surviving row of lowest seq that the classifier fails for.
pub(super) const UNKNOWN_RESERVED: &str = "SELECT kind, namespace, key FROM (\
    SELECT 0 AS kind, seq, namespace, key FROM src.scalar_values \
    WHERE session_id = ?1 AND namespace >= 'pi' AND namespace < 'pi/' \
    AND forkline_fate(0, namespace, key) = 5 UNION ALL \
    SELECT 1, seq, namespace, key FROM src.list_values \
    WHERE session_id = ?1 AND namespace >= 'pi' AND namespace < 'pi/' \
    AND forkline_fate(1, namespace, key) = 5) ORDER BY seq LIMIT 1";

/// How the large content of one table is fetched. Staged content is empty nowhere else, since
/// an empty text is no JSON.
struct Large {
    table: &'static str,
    is_object: bool,
    /// Seq and two texts that tell the row.
    find: &'static str,
    /// By session, the two texts and seq.
    read: &'static str,
    /// By content and seq.
    write: &'static str,
}

const LARGE: [Large; 3] = [
    Large {
        table: "entries",
        is_object: true,
        find: "SELECT seq, id, '' FROM main.entries WHERE payload = ''",
        read: "SELECT payload FROM src.entries WHERE session_id = ?1 AND id = ?2 AND ?3 = '' \
               AND seq = ?4",
        write: "UPDATE main.entries SET payload = ?1 WHERE seq = ?2",
    },
    Large {
        table: "scalar_values",
        is_object: false,
        find: "SELECT seq, namespace, key FROM main.vals WHERE value = ''",
        read: "SELECT value FROM src.scalar_values WHERE session_id = ?1 AND namespace = ?2 \
               AND key = ?3 AND seq = ?4",
        write: "UPDATE main.vals SET value = ?1 WHERE seq = ?2",
    },
    Large {
        table: "list_values",
        is_object: false,
        find: "SELECT seq, namespace, key FROM main.elements WHERE value = ''",
        read: "SELECT value FROM src.list_values WHERE session_id = ?1 AND namespace = ?2 \
               AND key = ?3 AND seq = ?4",
        write: "UPDATE main.elements SET value = ?1 WHERE seq = ?2",
    },
];

/// Every name with a lane row, ascending, and which rows it has.
const LANES: &str = "SELECT key, max(namespace = 'pi.branch.tip'), \
    max(namespace = 'pi.lane.config'), max(namespace = 'pi.lane.state') \
    FROM src.scalar_values WHERE session_id = ?1 \
    AND namespace IN ('pi.branch.tip', 'pi.lane.config', 'pi.lane.state') AND key <> '' \
    GROUP BY key ORDER BY key";

/// How many VM instructions run between two looks at the context.
const STEPS_PER_CHECK: i32 = 20_000;

/// A pinned source.
pub(super) struct Pinned<'a> {
    pub(super) conn: &'a mut Connection,
    pub(super) path: &'a Path,
    pub(super) session: &'a str,
    pub(super) next_seq: u64,
}

/// The newest entry that a branch fork copies.
struct Selected {
    id: EntryId,
    spot: Spot,
}

impl Pinned<'_> {
    /// Validates the options and moves the selected rows into the stage.
    ///
    /// # Errors
    /// Those of [`crate::fork::Source::plan`].
    pub(super) fn select(
        mut self,
        options: &ForkOptions,
        audit: LaneAudit,
        cx: &Context,
    ) -> Result<()> {
        let scope = &options.scope;
        let functions = Functions::register(self.conn, self.path, self.session, scope)
            .map_err(|error| failed("prepare to read", self.path, error))?;
        self.watch(Some((cx, &functions)))?;
        let selected = match scope {
            Scope::Tree => {
                if audit == LaneAudit::Strict {
                    self.audit_lanes()?;
                }
                None
            }
            Scope::Branch { branch, entry, position } => {
                self.select_entry(branch, entry.as_ref(), *position)?
            }
        };
        self.require_known(&functions)?;
        if self.next_seq > SEQ_MAX {
            return Err(ModelError::SeqExhausted { next_seq: self.next_seq }.into());
        }
        self.copy(scope, selected, &functions, cx)?;
        self.watch(None)
    }

    /// Looks at the context while SQLite works.
    fn watch(&mut self, watched: Option<(&Context, &Functions)>) -> Result<()> {
        let handler = watched.map(|(cx, functions)| {
            let (cx, functions) = (cx.clone(), functions.clone());
            move || {
                let rows_done = functions.rows();
                cx.progress(Progress { rows_done, ..Progress::default() }).is_err()
            }
        });
        self.conn
            .progress_handler(STEPS_PER_CHECK, handler)
            .map_err(|error| failed("prepare to read", self.path, error))
    }

    fn reads(&self) -> Reads<'_> {
        Reads::new(self.conn, SOURCE, self.path, self.session)
    }

    fn index(&self) -> BranchIndex<'_> {
        BranchIndex::new(self.conn, SOURCE, self.path, self.session)
    }

    fn value(&self, address: &Address) -> Result<Option<Json>> {
        Ok(self.reads().get_value(address)?.map(|(_, value)| value))
    }

    /// Contract §3.1: the lane is complete, its tip is an entry, the named entry is on its path.
    fn select_entry(
        &self,
        branch: &BranchName,
        entry: Option<&EntryId>,
        position: Position,
    ) -> Result<Option<Selected>> {
        let tip = self.value(&policy::tip_address(branch))?;
        let rows = LaneRows {
            tip: tip.is_some(),
            config: self.has_value(&policy::config_address(branch))?,
            state: self.has_value(&policy::state_address(branch))?,
        };
        rows.require_complete(branch)?;
        let tip = policy::read_tip(branch, &tip.unwrap_or_else(Json::null))?;
        let off_branch = |entry: &EntryId| ModelError::EntryNotOnBranch {
            branch: branch.clone(),
            entry: entry.clone(),
        };
        let Some(tip) = tip else {
            return entry.map_or(Ok(None), |entry| Err(off_branch(entry).into()));
        };
        let end = self.spot_of_tip(branch, &tip)?;
        let named = entry.unwrap_or(&tip);
        let found = self.on_path(end.clone(), named)?.ok_or_else(|| off_branch(named))?;
        if position == Position::At {
            return Ok(Some(Selected { id: named.clone(), spot: found }));
        }
        let Some(parent) = self.parent(named)? else { return Ok(None) };
        let at = At::table(self.path, self.session, "entries");
        let spot = self.on_path(end, &parent)?;
        let spot = spot.ok_or_else(|| {
            at.corrupt(named.as_str(), "its parent is not before it in the branch index")
        })?;
        Ok(Some(Selected { id: parent, spot }))
    }

    fn has_value(&self, address: &Address) -> Result<bool> {
        let sql = "SELECT 1 FROM src.scalar_values \
                   WHERE session_id = ?1 AND namespace = ?2 AND key = ?3";
        let values = [self.session, address.namespace.as_str(), address.key.as_str()];
        let found = self.conn.prepare_cached(sql).and_then(|mut find| find.exists(values));
        found.map_err(|error| failed("read", self.path, error))
    }

    fn has_entry(&self, id: &EntryId) -> Result<bool> {
        let sql = "SELECT 1 FROM src.entries WHERE session_id = ?1 AND id = ?2";
        let values = [self.session, id.as_str()];
        let found = self.conn.prepare_cached(sql).and_then(|mut find| find.exists(values));
        found.map_err(|error| failed("read", self.path, error))
    }

    fn spot_of_tip(&self, branch: &BranchName, tip: &EntryId) -> Result<Spot> {
        if !self.has_entry(tip)? {
            let (branch, tip) = (branch.clone(), tip.clone());
            return Err(ModelError::UnknownTip { branch, tip }.into());
        }
        let at = At::table(self.path, self.session, "entries");
        let spot = self.index().spot(tip.as_str())?;
        spot.ok_or_else(|| at.corrupt(tip.as_str(), "it is not in the branch index"))
    }

    /// Where an entry stands on the path that ends at `end`.
    fn on_path(&self, end: Spot, entry: &EntryId) -> Result<Option<Spot>> {
        let index = self.index();
        let mut found = None;
        index.walk(end, &mut |span: Span| {
            found = index.find(&span, entry.as_str())?.map(|seq| (span.branch, seq));
            Ok(found.is_none())
        })?;
        let Some((branch, seq)) = found else { return Ok(None) };
        Ok(Some(Spot { base: index.base(&branch)?, branch, seq }))
    }

    fn parent(&self, entry: &EntryId) -> Result<Option<EntryId>> {
        let at = At::table(self.path, self.session, "entries");
        let sql = "SELECT parent_id FROM src.entries WHERE session_id = ?1 AND id = ?2";
        self.conn
            .prepare_cached(sql)
            .and_then(|mut find| {
                let values = [self.session, entry.as_str()];
                find.query_row(values, |row| Ok(at.optional_id(row, 0, "parent_id")))
            })
            .map_err(|error| at.failed("read", error))?
    }

    /// Contract §3.5, `Strict`.
    fn audit_lanes(&self) -> Result<()> {
        let at = At::table(self.path, self.session, "scalar_values");
        let mut lanes = self.conn.prepare(LANES).map_err(|error| at.failed("read", error))?;
        let mut rows = lanes.query([self.session]).map_err(|error| at.failed("read", error))?;
        while let Some(row) = rows.next().map_err(|error| at.failed("read", error))? {
            let key = at.text(row, 0, "key")?;
            let branch = BranchName::new(key).map_err(|error| at.corrupt(key, error))?;
            let has = |column| at.number(row, column, "row").map(|number| number == 1);
            let shape = LaneRows { tip: has(1)?, config: has(2)?, state: has(3)? }.shape();
            if let LaneShape::Partial(reason) = shape {
                return Err(ModelError::CorruptLane { branch, reason }.into());
            }
            let tip = self.value(&policy::tip_address(&branch))?;
            let tip = policy::read_tip(&branch, &tip.unwrap_or_else(Json::null))?;
            if let Some(tip) = tip
                && !self.has_entry(&tip)?
            {
                return Err(ModelError::UnknownTip { branch, tip }.into());
            }
        }
        Ok(())
    }

    /// Contract §3.4: surviving state that no fork knows what to do with.
    fn require_known(&self, functions: &Functions) -> Result<()> {
        let at = At::table(self.path, self.session, "scalar_values");
        let mut find =
            self.conn.prepare(UNKNOWN_RESERVED).map_err(|error| at.failed("read", error))?;
        let mut rows = find.query([self.session]).map_err(|error| functions.explain(error))?;
        let Some(row) = rows.next().map_err(|error| functions.explain(error))? else {
            return Ok(());
        };
        let kind = match at.number(row, 0, "kind")? {
            0 => StoreKind::Value,
            _ => StoreKind::List,
        };
        let (namespace, key) = (at.text(row, 1, "namespace")?, at.text(row, 2, "key")?);
        let unknown = policy::unknown_reserved(kind, namespace, key);
        Err(unknown.map_err(|error| at.corrupt(key, error))?.into())
    }

    /// Moves the selected rows.
    fn copy(
        &self,
        scope: &Scope,
        selected: Option<Selected>,
        functions: &Functions,
        cx: &Context,
    ) -> Result<()> {
        let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
            let ran = self.conn.prepare(sql).and_then(|mut copy| copy.execute(values));
            ran.map(drop).map_err(|error| functions.explain(error))?;
            cx.progress(Progress { rows_done: functions.rows(), ..Progress::default() })
        };
        stage::create(self.conn)
            .map_err(|error| staging_failed("make a stage for", self.path, error))?;
        let session = &self.session;
        let tip = selected.as_ref().map(|selected| selected.id.clone());
        match (scope, selected) {
            (Scope::Tree, _) => run(ALL_ENTRIES, &[session])?,
            (Scope::Branch { .. }, None) => {}
            (Scope::Branch { .. }, Some(Selected { spot, .. })) => {
                self.index().walk(spot, &mut |span| {
                    run(SPAN_ENTRIES, params![session, span.branch, span.low, span.high])?;
                    Ok(true)
                })?;
            }
        }
        stage::index_ids(self.conn).map_err(|error| functions.explain(error))?;
        let text = |keep: Keep<'_>| keep.replacement().expect("these are never verbatim");
        let (tip, idle) = (text(Keep::Tip(tip.as_ref())), text(Keep::Idle));
        let prefilter = match scope {
            Scope::Tree => TREE_PREFILTER,
            Scope::Branch { .. } => BRANCH_PREFILTER,
        };
        for keep in [KEEP_VALUES, KEEP_ELEMENTS] {
            let keep = keep.replace("{prefilter}", prefilter);
            run(&keep, params![session, tip.as_str(), idle.as_str()])?;
        }
        LARGE.iter().try_for_each(|large| self.fetch(large, cx))
    }

    /// Fetches the large content of one table, row by row.
    fn fetch(&self, large: &Large, cx: &Context) -> Result<()> {
        let at = At::table(self.path, self.session, large.table);
        let failed = |error| staging_failed("copy from", self.path, error);
        let mut find = self.conn.prepare(large.find).map_err(failed)?;
        let mut read = self.conn.prepare(large.read).map_err(failed)?;
        let mut write = self.conn.prepare(large.write).map_err(failed)?;
        let mut rows = find.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            cx.check()?;
            let seq = signed(at.number(row, 0, "seq")?);
            let (id, key) = (at.text(row, 1, "id")?, at.text(row, 2, "key")?);
            // As where small content is checked: an entry by its id, other rows by their keys.
            let name = if large.is_object { id } else { key };
            {
                // Read, bound and written one after the other: twice in memory at any time.
                let content = read
                    .query_row(params![self.session, id, key, seq], |row| {
                        Ok(at.text(row, 0, "content").map(str::to_owned))
                    })
                    .map_err(failed)??;
                serde_json::from_str::<IgnoredAny>(&content)
                    .map_err(|error| at.corrupt(name, format!("it is not JSON: {error}")))?;
                if large.is_object && !content.trim_start().starts_with('{') {
                    return Err(at.corrupt(name, "payload is no JSON object"));
                }
                write.raw_bind_parameter(1, content).map_err(failed)?;
            }
            write.raw_bind_parameter(2, seq).map_err(failed)?;
            write.raw_execute().map_err(failed)?;
            write.raw_bind_parameter(1, rusqlite::types::Null).map_err(failed)?;
        }
        Ok(())
    }
}
