//! Sessions whose files are of older versions: planted, and then used in every way that there is
//! before and after their upgrade.

use forkline_model::json::quoted;
use forkline_model::world::Session;
use forkline_model::{EntryId, Legacy, Op, RepoIndex, Scope, SessionId};

use super::{Kind, Maker, SOURCES, Theme, texts};
use crate::plain_legacy::generate::{Wanted, generate_of};

/// With so many nothing new is planted.
const PLANTED_MAX: usize = 3;
/// Files have at most so many records: what they hold shows in few.
const RECORDS_MAX: usize = 12;

impl Maker<'_> {
    /// What a sequence with legacy files does with them most of the time; none of anything else.
    pub(super) fn about_legacy(&mut self) -> Option<Op> {
        if self.reference.setup.theme != Theme::Legacy {
            return None;
        }
        let planted = self.planted();
        let chance = match planted.len() {
            0 => 40,
            PLANTED_MAX.. => 0,
            _ => 8,
        };
        if self.dice.chance(chance) {
            return Some(self.plant());
        }
        // Also what has come of those.
        let all = self.sessions(|session| session.is_some()).into_iter();
        let all: Vec<_> = all.filter(|(repo, _)| *repo == SOURCES).collect();
        let pool = if planted.is_empty() || self.dice.chance(25) { all } else { planted };
        let focus = self.dice.pick_any(&pool).cloned().filter(|_| self.dice.chance(60))?;
        let is_open = self.reference.world.open_state(focus.0, &focus.1).is_ok();
        self.focus = Some(focus);
        let kind = self.dice.weighted(if is_open {
            &[
                (20, Kind::Read),
                (24, Kind::Fork),
                (6, Kind::ForkBegin),
                (6, Kind::Commit),
                (6, Kind::Append),
                (2, Kind::SetName),
                (3, Kind::SetLabel),
                (2, Kind::CreateBranch),
                (3, Kind::Mutate),
                (14, Kind::Close),
                (12, Kind::Reopen),
                (2, Kind::Delete),
            ][..]
        } else {
            &[
                (48, Kind::Fork),
                (10, Kind::ForkBegin),
                (28, Kind::Open),
                (4, Kind::TearTail),
                (4, Kind::Delete),
                (3, Kind::Reopen),
                (2, Kind::Read),
                (1, Kind::Commit),
            ][..]
        });
        Some(self.of_kind(kind))
    }

    /// The sessions that are still legacy files.
    fn planted(&self) -> Vec<(RepoIndex, SessionId)> {
        let world = &self.reference.world;
        let known = self
            .reference
            .known
            .iter()
            .filter(|(repo, id)| world.session(*repo, id).and_then(Session::legacy).is_some());
        known.cloned().collect()
    }

    fn plant(&mut self) -> Op {
        let taken = if self.dice.chance(5) { self.taken_id(SOURCES) } else { None };
        let session =
            taken.unwrap_or_else(|| texts::session_id(&mut self.dice, self.reference.step));
        let version = u32::try_from(self.dice.between(1, 3)).expect("it is small");
        let records_max = if self.dice.chance(10) { 3 * RECORDS_MAX } else { RECORDS_MAX };
        let records_max = u32::try_from(records_max).expect("it is small");
        let wanted = Wanted { version, records_max, is_damaged: self.dice.chance(15) };
        let dice = &mut self.dice;
        let mut pick = |end: u32| u32::try_from(dice.below(end as usize)).expect("below a u32");
        let cwd = &self.reference.setup.cwd;
        let bytes = generate_of(session.as_str(), cwd, wanted, &mut pick);
        let text = String::from_utf8(bytes).expect("generated files are text");
        let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let torn = lines.pop().unwrap_or_default();
        if self.dice.chance(70) {
            let has_sum = self.dice.chance(95);
            begin_with(if has_sum { &LANE } else { &LANE_WITHOUT_SUM }, version, &mut lines);
        }
        Op::Plant { repo: SOURCES, session, lines, torn }
    }

    /// The scope with its entry named as the file does; sometimes by the id that an import gave
    /// it, which is refused.
    pub(super) fn as_in_file(&mut self, scope: Scope, legacy: &Legacy) -> Scope {
        let Scope::Branch { branch, entry: Some(entry), position } = scope else { return scope };
        let of_file = legacy.ids.iter().find(|(_, id)| **id == entry).map(|(of_file, _)| of_file);
        let entry = match of_file {
            Some(_) if self.dice.chance(40) => Some(entry),
            Some(of_file) => Some(of_file.clone()),
            // Version 1 has no ids.
            None if self.dice.chance(45) => None,
            None if self.dice.chance(30) => EntryId::new("r0").ok(),
            None => Some(entry),
        };
        Scope::Branch { branch, entry, position }
    }
}

/// A model and a thinking level: what comes of them is a complete lane, unless their path is left.
const LANE: [&str; 2] = [
    r#""type":"model_change","provider":"p","modelId":"m""#,
    r#""type":"thinking_level_change","thinkingLevel":"low""#,
];

/// And usage that cannot be summed: such a file can be forked, but not opened.
const LANE_WITHOUT_SUM: [&str; 3] =
    [LANE[0], LANE[1], r#""type":"usage","kind":"k","usage":{"input":"many"}"#];

/// Puts records before all others.
fn begin_with(contents: &[&str], version: u32, lines: &mut Vec<String>) {
    let mut parent = "null".to_owned();
    let mut new = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let id = quoted(&format!("first{index}"));
        let ids =
            if version == 1 { String::new() } else { format!(r#","id":{id},"parentId":{parent}"#) };
        new.push(format!(r#"{{{content}{ids},"timestamp":"2024-03-01T09:00:00.000Z"}}"#));
        parent = id;
    }
    if let Some(first) = lines.get_mut(1) {
        *first = first.replacen(r#""parentId":null"#, &format!(r#""parentId":{parent}"#), 1);
    }
    lines.splice(1..1, new);
}
