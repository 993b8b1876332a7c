//! Random legacy files: sound ones with every kind of record, and damaged ones.

use std::fmt::Write as _;

use forkline_model::json::quoted;

/// Draws a number below its argument.
pub type Pick<'a> = dyn FnMut(u32) -> u32 + 'a;

/// What a file may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// 1, 2 or 3.
    pub version: u32,
    /// How many records it has at most.
    pub records_max: u32,
    /// Whether some lines are damaged.
    pub is_damaged: bool,
}

/// The bytes of a random legacy file.
pub fn generate(wanted: Wanted, pick: &mut Pick<'_>) -> Vec<u8> {
    generate_of("legacy", "/w", wanted, pick)
}

/// The same of the session of this id and working directory.
pub fn generate_of(id: &str, cwd: &str, wanted: Wanted, pick: &mut Pick<'_>) -> Vec<u8> {
    let mut text = header(id, cwd, wanted.version, pick);
    // The order of labels shows only where few records are labelled often.
    let is_labelled = pick(4) == 0;
    let mut tree = Tree { wanted, is_labelled, parents: Vec::new(), kinds: Vec::new() };
    let count = pick(wanted.records_max + 1);
    for _ in 0..count {
        let record = tree.record(pick);
        if wanted.is_damaged && pick(8) == 0 {
            damaged(&mut text, &record, pick);
        } else {
            text.extend_from_slice(record.as_bytes());
            text.extend_from_slice(if pick(20) == 0 { b"\r\n" } else { b"\n" });
        }
    }
    if pick(6) == 0 {
        text.extend_from_slice(b"{\"type\":\"message\",\"id\":\"torn");
    }
    text
}

fn header(id: &str, cwd: &str, version: u32, pick: &mut Pick<'_>) -> Vec<u8> {
    let mut text = String::from(if pick(10) == 0 { "\u{feff}" } else { "" });
    text.push_str("{\"type\":\"session\",");
    if version > 1 {
        write!(text, "\"version\":{version},").expect("a String");
    }
    let (id, cwd) = (quoted(id), quoted(cwd));
    write!(text, "\"id\":{id},\"timestamp\":\"2024-03-01T09:00:00.000Z\",\"cwd\":{cwd}")
        .expect("a String");
    if pick(2) == 0 {
        text.push_str(",\"provider\":\"p0\",\"modelId\":\"m0\"");
    }
    if pick(2) == 0 {
        text.push_str(",\"thinkingLevel\":\"low\"");
    }
    if pick(4) == 0 {
        text.push_str(",\"parentSession\":\"/no/such/file.jsonl\"");
    }
    text.push_str("}\n");
    text.into_bytes()
}

struct Tree {
    wanted: Wanted,
    is_labelled: bool,
    parents: Vec<Option<usize>>,
    kinds: Vec<u32>,
}

const USAGES: [&str; 4] = [
    r#"{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0.1,"output":0.2,"cacheRead":0,"cacheWrite":0,"total":0.3}}"#,
    r#"{"input":0.5,"output":7,"totalTokens":7.5,"cost":{"total":1e-7},"reasoning":5}"#,
    r#"{"input":3,"cacheWrite1h":2,"extra":[1]}"#,
    "null",
];

const TEXTS: [&str; 6] =
    ["", "a", "b\\u0063 \\\"x\\\"", "\\ud800", "caf\u{e9} \u{1f600}", "hookMessage"];

impl Tree {
    fn id(index: usize) -> String {
        // Some ids look like others' prefixes, and one is what a root is called.
        match index % 7 {
            3 => format!("r{index}\\u0041"),
            _ => format!("r{index}"),
        }
    }

    /// One record, without its line break.
    fn record(&mut self, pick: &mut Pick<'_>) -> String {
        let index = self.parents.len();
        let kind = if self.is_labelled && index > 3 && pick(3) > 0 { 11 } else { pick(13) };
        let parent = match (self.wanted.version, pick(10)) {
            (_, _) if index == 0 => None,
            (1, _) | (_, 0..=6) => Some(index - 1),
            (_, 7 | 8) => Some(pick(count(index)) as usize),
            _ => None,
        };
        self.parents.push(parent);
        self.kinds.push(kind);
        let mut members = vec![self.content(index, kind, pick)];
        if self.wanted.version > 1 {
            members.push(format!("\"id\":\"{}\"", Self::id(index)));
            members.push(match parent {
                Some(parent) => format!("\"parentId\":\"{}\"", Self::id(parent)),
                None => "\"parentId\":null".to_owned(),
            });
        }
        let minute = pick(3);
        members.push(match pick(8) {
            0 => "\"timestamp\":\"2024-03-01T10:00:00+01:00\"".to_owned(),
            _ => format!("\"timestamp\":\"2024-03-01T09:0{minute}:00.00{}Z\"", pick(2)),
        });
        if pick(9) == 0 {
            members.push("\"unknown\" : {\"id\":\"zz\"}".to_owned());
        }
        let shift = pick(count(members.len())) as usize;
        members.rotate_left(shift);
        let space = if pick(5) == 0 { " " } else { "" };
        format!(
            "{space}{{{space}{}{space}}}",
            members.join(if pick(5) == 0 { " ,\t" } else { "," })
        )
    }

    fn usage(pick: &mut Pick<'_>) -> String {
        match pick(3) {
            0 => format!(",\"usage\":{}", USAGES[pick(count(USAGES.len())) as usize]),
            _ => String::new(),
        }
    }

    fn text(pick: &mut Pick<'_>) -> String {
        format!("\"{}\"", TEXTS[pick(count(TEXTS.len())) as usize])
    }

    /// Any record that there is or will soon be.
    fn any(&self, pick: &mut Pick<'_>) -> String {
        let some = if self.is_labelled { self.parents.len().min(4) } else { self.parents.len() };
        Self::id(pick(count(some)) as usize)
    }

    /// A record on the path of another one.
    fn ancestor(&self, of: usize, pick: &mut Pick<'_>) -> usize {
        let mut at = of;
        for _ in 0..pick(12) {
            match self.parents[at] {
                Some(parent) => at = parent,
                None => break,
            }
        }
        at
    }

    fn content(&self, index: usize, kind: u32, pick: &mut Pick<'_>) -> String {
        match kind {
            0..=2 => Self::message(pick),
            3 => format!(
                "\"type\":\"custom_message\",\"customType\":\"t\",\"content\":{}{}{}",
                Self::text(pick),
                ["", ",\"display\":true", ",\"display\":null"][pick(3) as usize],
                ["", ",\"details\":{\"a\" : 1.0}", ",\"details\":null"][pick(3) as usize],
            ),
            4 => format!(
                "\"type\":\"custom\"{}{}",
                [",\"customType\":\"x\"", ",\"customType\":\"caf\u{e9}\"", ""][pick(3) as usize],
                ["", ",\"data\":[1e2,12345678901234567890]", ",\"data\":null"][pick(3) as usize],
            ),
            5 => format!(
                "\"type\":\"branch_summary\",\"fromId\":{},\"summary\":{}{}{}{}",
                match (self.wanted.version, pick(3)) {
                    (1, _) | (_, 0) => "\"root\"".to_owned(),
                    (_, 1) => "null".to_owned(),
                    _ => format!("\"{}\"", self.any(pick)),
                },
                Self::text(pick),
                ["", ",\"details\":{}"][pick(2) as usize],
                Self::usage(pick),
                ["", ",\"fromHook\":null", ",\"fromHook\":true"][pick(3) as usize],
            ),
            6 => format!(
                "\"type\":\"compaction\",\"summary\":{},{},\"tokensBefore\":9{}{}{}",
                Self::text(pick),
                {
                    let first = self.ancestor(index, pick);
                    match self.wanted.version {
                        1 => format!("\"firstKeptEntryIndex\":{}", first + 1),
                        _ => format!("\"firstKeptEntryId\":\"{}\"", Self::id(first)),
                    }
                },
                Self::usage(pick),
                ["", ",\"systemMessage\":{\"role\":\"system\"}"][pick(2) as usize],
                ["", ",\"fromHook\":true"][pick(2) as usize],
            ),
            7 => [
                "\"type\":\"model_change\",\"provider\":\"p\",\"modelId\":\"m\"",
                "\"type\":\"model_change\",\"provider\":null",
            ][pick(2) as usize]
                .to_owned(),
            8 => "\"type\":\"thinking_level_change\",\"thinkingLevel\":\"high\"".to_owned(),
            9 => [
                "\"type\":\"active_tools_change\",\"activeToolNames\":[\"read\"]",
                "\"type\":\"active_tools_change\"",
            ][pick(2) as usize]
                .to_owned(),
            10 => format!("\"type\":\"session_info\",\"name\":{}", Self::text(pick)),
            11 if self.wanted.version > 1 => format!(
                "\"type\":\"label\",\"targetId\":\"{}\"{}",
                self.any(pick),
                match pick(3) {
                    0 => String::new(),
                    _ => format!(",\"label\":{}", Self::text(pick)),
                }
            ),
            12 if self.wanted.version > 1 => format!(
                "\"type\":\"context_edit\",\"targetId\":\"{}\",\"replacement\":{{\"content\":{}}}",
                self.any(pick),
                Self::text(pick)
            ),
            _ => format!("\"type\":\"usage\",\"kind\":\"k\"{}", Self::usage(pick)),
        }
    }

    fn message(pick: &mut Pick<'_>) -> String {
        let role = ["user", "assistant", "toolResult", "hookMessage", "h\\u006fokMessage"];
        match pick(12) {
            0 => "\"type\":\"message\"".to_owned(),
            1 => "\"type\":\"message\",\"message\":[{\"role\":\"assistant\"}]".to_owned(),
            _ => format!(
                "\"type\":\"message\",\"message\":{{{}\"role\":\"{}\",\"content\":{}{}}}",
                ["", "\"role\":\"hookMessage\",", " "][pick(3) as usize],
                role[pick(count(role.len())) as usize],
                Self::text(pick),
                Self::usage(pick)
            ),
        }
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("files here are small").max(1)
}

/// A line with damage of one kind.
fn damaged(text: &mut Vec<u8>, record: &str, pick: &mut Pick<'_>) {
    let half = record.char_indices().nth(record.chars().count() / 2).map_or(0, |(at, _)| at);
    let line = match pick(13) {
        0 => String::new(),
        1 => record[..half].to_owned(),
        2 => format!("{}{record}", &record[..half]),
        3 => format!("{record}{{\"type\":\"usage\",\"id\":\"g{}\",\"parentId\":null}}", pick(1000)),
        4 => format!("[{record}]"),
        5 => format!("{record}{record}"),
        6 => record.replace("\"type\":\"", "\"type\":\"odd_"),
        7 => record.replace("\"id\":\"r", "\"id\":[],\"was\":\"r"),
        8 => record.replace("\"parentId\":\"r", "\"parentId\":\"nobody"),
        9 => record.replace("2024-03-01", "yesterday"),
        10 => record
            .replace("KeptEntryId\":\"r", "KeptEntryId\":\"nobody")
            .replace("targetId\":\"", "targetId\":\"no"),
        11 => record
            .replace("\"fromId\":\"r", "\"fromId\":\"q")
            .replace("EntryIndex\":", "EntryIndex\":9"),
        _ => record.replace("\"type\"", "\"\0\""),
    };
    text.extend_from_slice(line.as_bytes());
    text.push(b'\n');
}
