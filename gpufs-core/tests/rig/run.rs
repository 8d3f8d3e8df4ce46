//! The steps in which a warp publishes a run of blocks that were read ahead and indexed, as `publish_run` of the device crate's `stdio/ahead.rs`
//! does.

use gpufs_core::resources::Resources;
use gpufs_core::stream::Stream;

/// Publishes a run of at most so many blocks, or stops; whether there was one. `carried_over` looks at each place before it is carried on from:
/// which, how many bytes were carried into it, and from where.
pub(crate) fn publish_run(
    (session, stream): (&Resources, &Stream),
    blocks_max: u32,
    mut carried_over: impl FnMut(u32, u64, u64),
) -> bool {
    let lines = &stream.lines;
    let Some(first) = lines.claim_next() else { return false };
    let behind = (1..blocks_max).map_while(|ahead| lines.claim_behind(first, ahead));
    let run: Vec<u32> = std::iter::once(first).chain(behind).collect();
    let mut carried = Vec::new();
    for &place in &run {
        let Some((bytes, from)) = lines.carry(session, stream, place) else { break };
        carried_over(place, bytes, from);
        let before = lines.block_before(place);
        carried.push((place, before, lines.note_carried(session, place, bytes)));
        if !lines.is_whole(stream, place) {
            break;
        }
    }
    run[carried.len().max(1)..].iter().for_each(|place| lines.put_back(*place));
    let Some(&(last, ..)) = carried.last() else {
        lines.stop_at(first);
        return true;
    };
    let base = lines.published();
    let mut granted = 0;
    for &(place, _, count) in &carried {
        lines.note_lines(place, base + granted, count);
        granted += count;
    }
    lines.grant_up_to(stream, last, base, granted);
    for before in carried.iter().filter_map(|(_, before, _)| *before) {
        lines.count_carried(session, stream, before);
    }
    true
}
