//! Points as a table.

use std::fmt::Write;

use super::Drawn;

impl Drawn {
    /// All points with all that was measured, as CSV.
    pub fn csv(&self) -> String {
        let names: Vec<_> = self.columns.iter().map(|(name, _)| *name).collect();
        let mut table = format!("panel,curve,x,{}\n", names.join(","));
        for (number, place) in self.places.iter().enumerate() {
            let _ = write!(table, "\"{}\",\"{}\",\"{}\"", place.panel, place.curve, place.x);
            for (_, values) in &self.columns {
                let _ = write!(table, ",{}", short(values[number]));
            }
            table.push('\n');
        }
        table
    }
}

/// Six digits, or as many as there are before the point.
fn short(value: f64) -> String {
    let before = if value.abs() < 1.0 { 0 } else { value.abs().log10() as usize + 1 };
    let text = format!("{value:.*}", 6_usize.saturating_sub(before));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.1 + 0.2, 12.345_678_9, 1_234_567.8, 100.0].map(short);
        assert_eq!(shown, ["0", "0.3", "12.3457", "1234568", "100"]);
    }
}
