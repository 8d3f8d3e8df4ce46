"""Reads a trace by Perfetto's own definitions of its format, and says as JSON what is in it.

It follows what https://perfetto.dev/docs/reference/synthetic-track-event says of sequences, names and clocks, and lists as errors what a
reader would pass over: an event without a track, a name that nobody wrote, an end without a begin, a time by a clock that is not known.
"""

import collections
import json
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

BOOTTIME, CLEARED = 6, 1
KINDS = {1: "begin", 2: "end", 3: "instant", 4: "counter"}


class Sequence:
    def __init__(self):
        self.names, self.values = {}, {}
        self.clock = self.track = None


def value_of(annotation):
    kind = annotation.WhichOneof("value")
    return getattr(annotation, kind) if kind else None


def main(path):
    trace = perfetto.Trace()
    trace.ParseFromString(open(path, "rb").read())
    sequences, tracks, clocks = collections.defaultdict(Sequence), {}, {}
    counts, sums, errors, largest = collections.Counter(), collections.Counter(), [], {}
    open_spans, times, snapshots, names = collections.defaultdict(list), [], 0, set()

    def joined(clock, time):
        if clock in (None, 0, BOOTTIME):
            return time
        if clock not in clocks:
            errors.append(f"no snapshot of clock {clock}")
            return None
        device, host = clocks[clock]
        return time - device + host

    for packet in trace.packet:
        state = sequences[packet.trusted_packet_sequence_id]
        if packet.sequence_flags & CLEARED:
            state = sequences[packet.trusted_packet_sequence_id] = Sequence()
        if packet.HasField("trace_packet_defaults"):
            state.clock = packet.trace_packet_defaults.timestamp_clock_id
            state.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        for name in packet.interned_data.event_names:
            state.names[name.iid] = name.name
        for name in packet.interned_data.debug_annotation_names:
            state.values[name.iid] = name.name
        if packet.HasField("clock_snapshot"):
            snapshots += 1
            at = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            clocks.update({clock: (time, at[BOOTTIME]) for clock, time in at.items()})
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            names.add(packet.track_descriptor.name or packet.track_descriptor.process.process_name)
        if not packet.HasField("track_event"):
            continue
        event, kind = packet.track_event, KINDS.get(packet.track_event.type, "none")
        if packet.trusted_packet_sequence_id == 0:
            errors.append("an event without a sequence")
        track = event.track_uuid or state.track
        if track not in tracks:
            errors.append(f"an event on track {track}, which nobody described")
            continue
        time = joined(packet.timestamp_clock_id or state.clock, packet.timestamp)
        if time is not None:
            times.append(time)
        if kind == "counter":
            name = tracks[track].name
            if not tracks[track].HasField("counter"):
                errors.append(f"a value on track {name}, which is no counter")
            which = event.WhichOneof("counter_value_field")
            sums[f"{name} value"] += getattr(event, which)
            largest[name] = max(largest.get(name, 0), getattr(event, which))
        else:
            name = event.name or state.names.get(event.name_iid, "")
            if kind != "end" and not name:
                errors.append(f"a name {event.name_iid} that nobody wrote")
            for annotation in event.debug_annotations:
                value = annotation.name or state.values.get(annotation.name_iid)
                if value is None:
                    errors.append(f"a value's name {annotation.name_iid} that nobody wrote")
                elif not isinstance(value_of(annotation), str):
                    sums[f"{name} {value}"] += value_of(annotation)
        if kind == "begin":
            open_spans[track].append(name)
        elif kind == "end":
            if open_spans[track]:
                open_spans[track].pop()
            else:
                errors.append(f"an end without a begin on track {tracks[track].name}")
        counts[f"{kind} {name}"] += 1
    json.dump(
        {
            "packets": len(trace.packet),
            "counts": counts,
            "sums": sums,
            "largest": largest,
            "errors": errors[:20],
            "snapshots": snapshots,
            "tracks": sorted(names),
            "first": min(times, default=0),
            "last": max(times, default=0),
        },
        sys.stdout,
    )


main(sys.argv[1])
