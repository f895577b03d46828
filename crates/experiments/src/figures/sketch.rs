//! A figure in the making.

use super::{Drawn, Place, Row, Shown};

/// The error up to which a number is near the paper's.
const NEAR: f64 = 0.3;

/// A figure in the making.
pub(crate) struct Sketch {
    pub(crate) drawn: Drawn,
}

impl Sketch {
    /// A figure without points, of which these quantities are shown.
    pub(crate) fn new(
        id: &'static str,
        title: &'static str,
        about: &'static str,
        x: &'static str,
        shown: &[&'static str],
    ) -> Self {
        let shown_as = |what: &&'static str| Shown { what: (*what).into(), values: Vec::new() };
        let drawn = Drawn {
            id,
            title,
            about,
            x,
            bars: x == "program",
            places: Vec::new(),
            shown: shown.iter().map(shown_as).collect(),
            columns: shown.iter().map(|&what| (what, Vec::new())).collect(),
            rows: Vec::new(),
        };
        Self { drawn }
    }

    /// Further columns of the figure's table, which are not drawn. Their values follow those of the
    /// drawn quantities.
    pub(crate) fn also(&mut self, columns: &[&'static str]) {
        self.drawn.columns.extend(columns.iter().map(|&what| (what, Vec::new())));
    }

    /// A point: where it is, and what is shown of it.
    pub(crate) fn point(&mut self, panel: &str, curve: &str, x: String, values: &[f64]) {
        self.drawn.places.push(Place { panel: panel.into(), curve: curve.into(), x });
        let shown = self.drawn.shown.iter_mut().map(|shown| &mut shown.values);
        let columns = self.drawn.columns.iter_mut().map(|(_, values)| values);
        shown.zip(values).for_each(|(all, &value)| all.push(value));
        columns.zip(values).for_each(|(all, &value)| all.push(value));
    }

    /// A row about a number that the paper states.
    pub(crate) fn states(&mut self, quantity: String, paper: f64, ours: f64) {
        let row = Row::new(self.drawn.id, quantity, Some(paper), None, ours);
        self.drawn.rows.push(row);
    }

    /// A row about a number that the paper states, which ours is to be near; if it is not, `why`
    /// explains it.
    pub(crate) fn is_near(&mut self, quantity: String, paper: f64, ours: f64, why: &'static str) {
        let row = Row::new(self.drawn.id, quantity, Some(paper), None, ours);
        let near = row.error.is_some_and(|error| error.abs() <= NEAR);
        self.drawn.rows.push(row.judged(near, why));
    }

    /// A row about something that the paper says, with whether it holds; if not, `why` explains it.
    pub(crate) fn judges(
        &mut self,
        quantity: String,
        says: &'static str,
        ours: f64,
        holds: bool,
        why: &'static str,
    ) {
        let row = Row::new(self.drawn.id, quantity, None, Some(says), ours).judged(holds, why);
        self.drawn.rows.push(row);
    }

    /// A row about something that the paper says without a number.
    pub(crate) fn says(&mut self, quantity: String, says: &'static str, ours: f64) {
        let row = Row::new(self.drawn.id, quantity, None, Some(says), ours);
        self.drawn.rows.push(row);
    }
}
