//! A table of the controller's state that knows which of its rows changed.
//!
//! Invariant: every row that was inserted, handed out for writing or removed since the last [`Table::take_changed`] is
//! named by the next one. There is no other way to write, so no change can be left out of the registry.

use std::collections::{BTreeMap, BTreeSet};

/// Rows by their key.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, V>,
    changed: BTreeSet<K>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { rows: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V: PartialEq> Table<K, V> {
    /// The row with this key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.rows.get(key)
    }

    /// Whether there is a row with this key.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.rows.contains_key(key)
    }

    /// All rows, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    /// All rows without their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.rows.values()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Changes a row, if there is one; says whether it differs now. A row that stays the same is not written again.
    pub(super) fn edit(&mut self, key: &K, edit: impl FnOnce(&mut V)) -> bool
    where
        V: Clone,
    {
        let Some(row) = self.rows.get_mut(key) else { return false };
        let before = row.clone();
        edit(row);
        let differs = *row != before;
        if differs {
            self.changed.insert(key.clone());
        }
        differs
    }

    /// Adds a row, or replaces the one with the same key.
    pub(super) fn insert(&mut self, key: K, row: V) {
        self.changed.insert(key.clone());
        self.rows.insert(key, row);
    }

    /// Removes a row.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let row = self.rows.remove(key)?;
        self.changed.insert(key.clone());
        Some(row)
    }

    /// Puts a row that was read from the registry: it is not changed.
    pub(super) fn load(&mut self, key: K, row: V) {
        self.rows.insert(key, row);
    }

    /// The keys of changed rows, in their order; from now on nothing is changed.
    pub(super) fn take_changed(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.changed)
    }
}
