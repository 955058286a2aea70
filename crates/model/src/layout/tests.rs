//! Properties of the stripe arithmetic.

use super::*;
use proptest::prelude::*;

fn layouts() -> impl Strategy<Value = Layout> {
    (1u64..64, 1u32..9, 1u32..6).prop_flat_map(|(units, servers, substripes)| {
        (1..=servers, 0..servers).prop_map(move |(count, first)| {
            Layout::new(units * STRIPE_SIZE_UNIT, count, first, substripes, servers).unwrap()
        })
    })
}

/// Offsets near the ends of stripes and anywhere.
fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..4_000_000, 0u64..(1 << 50)]
}

proptest! {
    #[test]
    fn place_and_offset_are_inverse(layout in layouts(), offset in offsets()) {
        let (substripe, local) = layout.place(offset);
        prop_assert!(substripe.slot < layout.stripe_count() && substripe.index < layout.substripes());
        prop_assert_eq!(layout.offset_of(substripe, local), Some(offset));
    }

    #[test]
    fn every_place_holds_one_byte(layout in layouts(), local in 0u64..(1 << 40), which in any::<prop::sample::Index>()) {
        let all: Vec<Substripe> = layout.all_substripes().collect();
        let substripe = all[which.index(all.len())];
        let offset = layout.offset_of(substripe, local).unwrap();
        prop_assert_eq!(layout.place(offset), (substripe, local));
    }

    #[test]
    fn pieces_cover_a_range_in_order(layout in layouts(), start in offsets(), len in 0u64..3_000_000) {
        let mut at = 0;
        for piece in layout.pieces(start..start + len) {
            prop_assert_eq!(piece.at, at);
            prop_assert!(piece.len > 0);
            prop_assert_eq!(layout.place(start + at), (piece.substripe, piece.local));
            let last = layout.place(start + at + piece.len - 1);
            prop_assert_eq!(last, (piece.substripe, piece.local + piece.len - 1));
            at += piece.len;
        }
        prop_assert_eq!(at, len);
    }

    #[test]
    fn shares_add_up_to_the_file(layout in layouts(), end in offsets()) {
        let sum: u64 = layout.all_substripes().map(|s| layout.share_len(s, end)).sum();
        prop_assert_eq!(sum, end);
    }

    #[test]
    fn a_share_ends_where_the_next_byte_goes(layout in layouts(), end in offsets()) {
        let (next, local) = layout.place(end);
        for substripe in layout.all_substripes() {
            let share = layout.share_len(substripe, end);
            if substripe == next {
                prop_assert_eq!(share, local);
            }
            prop_assert!(layout.offset_of(substripe, share).unwrap() >= end);
            if share > 0 {
                prop_assert!(layout.offset_of(substripe, share - 1).unwrap() < end);
            }
        }
    }

    #[test]
    fn ranges_of_a_share_hold_exactly_the_pieces(layout in layouts(), start in offsets(), len in 0u64..3_000_000) {
        for substripe in layout.all_substripes() {
            let range = layout.share_range(substripe, start..start + len);
            let mut next = range.start;
            for piece in layout.pieces(start..start + len).filter(|p| p.substripe == substripe) {
                prop_assert_eq!(piece.local, next);
                next += piece.len;
            }
            prop_assert_eq!(next, range.end);
        }
    }

    #[test]
    fn what_is_settled_is_valid(size in prop::option::of(0u64..100_000), count in prop::option::of(0u32..9),
                                first in prop::option::of(0u32..9), sub in prop::option::of(0u32..70),
                                servers in 0u32..9, id in any::<u64>()) {
        let choice = LayoutChoice { stripe_size: size, stripe_count: count, first_server: first, substripes: sub };
        if let Ok(layout) = choice.settle(servers, id) {
            prop_assert!(layout.stripe_count() <= servers && layout.first_server() < servers);
            prop_assert!(layout.stripe_size() > 0 && layout.stripe_size() % STRIPE_SIZE_UNIT == 0);
            prop_assert!((1..=SUBSTRIPES_MAX).contains(&layout.substripes()));
        } else {
            prop_assert!(servers == 0 || size.is_some_and(|s| s == 0 || s % STRIPE_SIZE_UNIT != 0)
                || count.is_some_and(|c| c == 0 || c > servers) || first.is_some_and(|f| f >= servers)
                || sub.is_some_and(|s| s == 0 || s > SUBSTRIPES_MAX));
        }
    }
}

#[test]
fn neighbouring_stripes_go_around_the_ring() {
    let layout = Layout::new(8 << 20, 4, 2, 3, 4).unwrap();
    let servers: Vec<u32> = (0..6).map(|k| layout.server(layout.place(k * (8 << 20)).0.slot)).collect();
    assert_eq!(servers, [2, 3, 0, 1, 2, 3]);
    let rows: Vec<u32> = (0..4).map(|row| layout.place(row * 4 * (8 << 20)).0.index).collect();
    assert_eq!(rows, [0, 1, 2, 0]);
}

#[test]
fn first_servers_spread_evenly() {
    let mut files = [0u32; 4];
    for id in 0..4000 {
        files[LayoutChoice::default().settle(4, id).unwrap().first_server() as usize] += 1;
    }
    assert!(files.iter().all(|n| (800..1200).contains(n)), "{files:?}");
}

#[test]
fn one_server_keeps_a_file_whole() {
    assert!(LayoutChoice::default().settle(1, 7).unwrap().is_whole());
    assert!(!LayoutChoice::default().settle(2, 7).unwrap().is_whole());
}
