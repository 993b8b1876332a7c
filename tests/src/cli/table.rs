//! Rows of a run as a table for people, and the differences below it.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use super::bytes_for_people;
use crate::verify::{Found, Outcome, Row, Summary};

/// All rows as a table.
pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // Fits a terminal's width; elsewhere lines are as long as they need to be.
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(
        ["session", "format", "size", "entries", "branches", "forks", "result"]
            .map(|name| Cell::new(name).add_attribute(Attribute::Bold)),
    );
    for row in rows {
        table.add_row(cells(row));
    }
    for column in 2..=5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &Row) -> Vec<Cell> {
    let number = |number: u64| if row.forks > 0 { number.to_string() } else { String::new() };
    vec![
        Cell::new(name(row)),
        Cell::new(row.format),
        Cell::new(bytes_for_people(row.bytes)),
        Cell::new(number(row.entries)),
        Cell::new(number(row.branches)),
        Cell::new(number(row.forks)),
        result(row),
    ]
}

fn result(row: &Row) -> Cell {
    match &row.outcome {
        Outcome::Holds => {
            let imported = row.records.map(|records| format!("holds, {records} records imported"));
            Cell::new(imported.as_deref().unwrap_or("holds")).fg(Color::Green)
        }
        Outcome::Salvaged { taken, skipped, .. } => {
            Cell::new(salvaged(*taken, *skipped)).fg(Color::Yellow)
        }
        Outcome::Corrupt { line: Some(line), .. } => {
            Cell::new(format!("corrupt, line {line}")).fg(Color::Red)
        }
        Outcome::Corrupt { line: None, .. } => Cell::new("corrupt").fg(Color::Red),
        Outcome::Differs { differences } => {
            Cell::new(format!("{} differences", differences.len())).fg(Color::Red)
        }
        Outcome::Skipped { .. } => Cell::new("skipped").fg(Color::Yellow),
    }
}

/// The file, and the session where the file holds others too.
fn name(row: &Row) -> String {
    let path = row.path.display().to_string();
    match &row.session {
        Some(session) if row.format == "sqlite" => format!("{path} {session}"),
        _ => path,
    }
}

/// What has to be said of a row beyond its place in the table.
pub(super) fn remarks(row: &Row) -> Vec<String> {
    match &row.outcome {
        Outcome::Holds => Vec::new(),
        Outcome::Salvaged { findings, more, .. } => {
            let mut lines = vec![format!("salvaged: {}", name(row))];
            lines.extend(findings_for_people(findings, *more));
            lines
        }
        Outcome::Corrupt { line: Some(line), reason } => {
            vec![format!("corrupt: {} line {line}: {reason}", name(row))]
        }
        Outcome::Corrupt { line: None, reason } => {
            vec![format!("corrupt: {}: {reason}", name(row))]
        }
        Outcome::Skipped { reason } => vec![format!("skipped: {}: {reason}", name(row))],
        Outcome::Differs { differences } => {
            let mut lines = Vec::new();
            for difference in differences {
                lines.push(format!("differs: {}: {}", name(row), difference.what));
                lines.extend(difference.lines.iter().map(|line| format!("    {line}")));
                lines.push(format!("    again: {}", difference.command));
            }
            lines
        }
    }
}

/// How much was taken.
pub(super) fn salvaged(taken: u64, skipped: u64) -> String {
    format!("salvaged {taken} of {} records", taken + skipped)
}

/// The findings of a salvage, a line each.
pub(super) fn findings_for_people(findings: &[Found], more: u64) -> Vec<String> {
    let line = |found: &Found| format!("    line {} {}: {}", found.line, found.repair, found.what);
    let mut lines: Vec<String> = findings.iter().map(line).collect();
    if more > 0 {
        lines.push(format!("    and {more} more"));
    }
    lines
}

/// The last line of a run.
pub(super) fn summary(summary: &Summary) -> String {
    let Summary { sessions, forks, refused, differences, corrupt, skipped } = summary;
    format!(
        "{sessions} sessions, {forks} forks held against the model ({refused} refused alike), \
         {differences} differences, {corrupt} corrupt, {skipped} skipped"
    )
}
