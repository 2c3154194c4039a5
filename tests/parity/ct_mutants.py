# SPDX-License-Identifier: Apache-2.0
"""Breaks dp/ct*.h in one place after the other, and tells whether the oracle of connection tracking sees it, or the unit test
where Open vSwitch has nothing to compare with: the tables.

    tests/parity/ct_mutants.py BUILD [NAME...]

BUILD is a build folder, for Open vSwitch's libraries.  Each mutant is compiled (a few seconds) in a copy of the tree's dp/
and must make test_ct.c, or tests/unit/test_dp_ct.c, fail.  The first column is the semantics that it breaks."""
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
ROUNDS = "6000"
SECONDS = 60                            # Of CPU time, for one test: else the mutant hangs.

# (semantics, file of dp/, what stands there, what the mutant has)
MUTANTS = (
    ("state begins anew in another zone", "ct_run.h", "md->state && md->zone != action->zone", "0"),
    ("state accumulates in a zone", "ct_run.h", "md->state && md->zone != action->zone", "md->state"),
    ("a second ct() in the zone does not judge again", "ct_run.h", "return md->cached && key &&", "return 0 && key &&"),
    ("it is judged again after nat", "ct_run.h", "md->cached = action->flags & DP_CT_NAT ? 0 : run->ref;", "md->cached = run->ref;"),
    ("translated packets are found by what answers them", "ct_run.h", "        run->ref ^= 1;\n", ""),
    ("changed packets are found by the original tuple", "ct_run.h", "run->ref = dp_ct_look_up_original(ctx, run, action, now);", ""),
    ("lookups pass over what has expired", "ct.h", "DP_READ_ONCE(life->used)) >= (__s32) policy->ticks[class]",
     "DP_READ_ONCE(life->used)) > (__s32) policy->ticks[class]"),
    ("valid: -new", "ct_run.h", "(run->md.state & ~DP_CS_NEW) | DP_CS_EST | rpl", "run->md.state | DP_CS_EST | rpl"),
    ("valid: +rpl", "ct_run.h", "(run->md.state & ~DP_CS_NEW) | DP_CS_EST | rpl", "(run->md.state & ~DP_CS_NEW) | DP_CS_EST"),
    ("invalid: all other bits go", "ct_run.h",
     "    default:\n        run->md.state = DP_CS_INV;", "    default:\n        run->md.state |= DP_CS_INV;"),
    ("invalid packets have mark, label, tuple of the connection", "ct_run.h",
     "    default:\n        run->md.state = DP_CS_INV;", "    default:\n        run->ref = 0;\n        run->md.state = DP_CS_INV;"),
    ("invalid packets are translated", "ct_run.h", "if (action->flags & DP_CT_NAT && !begins) {",
     "if (action->flags & DP_CT_NAT && !begins && !(md->state & DP_CS_INV)) {"),
    ("force ends what its peer began", "ct_run.h", "action->flags & DP_CT_FORCE && DP_CT_REF_REPLY(run->ref) && run->ref", "0"),
    ("not committed: the packet's own tuple", "ct_run.h", "dp_ct_write(ctx, md, action->zone, run->ref, &run->tuple);",
     "dp_ct_write(ctx, md, action->zone, run->ref, run->ref ? &run->tuple : 0);"),
    ("at a zone's limit: new, no connection", "ct_new.h", "if (!dp_ct_admit(&zone->count, DP_READ_ONCE(zone->limit)))", "if (0)"),
    ("at the limit of all", "ct_new.h", "if (!dp_ct_admit(&head->n_conns, DP_READ_ONCE(head->maxconns)))", "if (0)"),
    ("zones without a limit share one", "ct_new.h", "z = dp_ct_zones_at(ctx, DP_CT_ZONE_DEFAULT);\n        if", "if"),
    ("mark: value or old bits", "ct.h", "action->mark | (md->mark & ~action->mark_mask)", "action->mark"),
    ("label: value or old bits", "ct.h", "action->label[1] | (md->label[1] & ~action->label_mask[1])", "action->label[1]"),
    ("IPv4 header's checksum", "ct_packet.h", "!dp_ct_ip4_is_good(ctx, ip, frame->l3)", "0"),
    ("IPv4 header's checksum, with options", "ct_packet.h", "return dp_ct_sum_is_good(dp_ct_sum(ctx, l3, (ip[0] & 15) * 4));",
     "return 1;"),
    ("transport's checksum", "ct_packet.h", "        && !dp_ct_l4_is_good(ctx, run)) {", "        && 0) {"),
    ("no UDP checksum in IPv4", "ct_packet.h", "if (!udp || !dp_load16(udp + 6))", "if (!udp)"),
    ("port 0", "ct_packet.h", "return t->l4[0] && t->l4[1];", "return 1;"),
    ("UDP length", "ct_packet.h", "len >= DP_UDP_LEN && len <= run->l4_len", "len <= run->l4_len"),
    ("UDP length beyond the packet", "ct_packet.h", "len >= DP_UDP_LEN && len <= run->l4_len", "len >= DP_UDP_LEN"),
    ("TCP offset beyond the packet", "ct_packet.h", "len < DP_TCP_LEN || len > run->l4_len", "len < DP_TCP_LEN"),
    ("fragments that were not put together", "ct_packet.h", "!ip || dp_load16(ip + 6) & dp_htons(0x3fff).raw", "!ip"),
    ("IPv6 extension headers", "ct_packet.h", "(p[1] + 1) * 8", "8 + 8"),
    ("TCP: table of flags", "ct_tcp.h",
     "return flags & DP_TCP_ACK || !(flags & (DP_TCP_FIN | DP_TCP_PSH | DP_TCP_URG));", "return 1;"),
    ("TCP: SYN+ACK begins nothing", "ct_tcp.h",
     "dp_ct_tcp_flags_are_good(flags) && (flags", "dp_ct_tcp_flags_are_good(flags) || (flags"),
    ("TCP: picked up in the middle", "ct_tcp.h", "src.wscale = dst.wscale = DP_CT_WSCALE_UNKNOWN;", ""),
    ("TCP: SYN after the end", "ct_tcp.h", "            return DP_CT_ANEW;", "            return DP_CT_INVALID;"),
    ("TCP: SYN while it opens", "ct_tcp.h",
     "DP_CT_STATE_CLASS, 4, DP_CT_TM_TCP_FIRST);", "DP_CT_STATE_CLASS, 4, DP_CT_TM_TCP_OPENING);"),
    ("TCP: the first segment of an end writes before it is judged", "ct_tcp.h",
     "        verdict = DP_CT_INVALID;\n    }\n    dp_ct_tcp_store", "        return DP_CT_INVALID;\n    }\n    dp_ct_tcp_store"),
    ("TCP: window of a SYN unscaled", "ct_tcp.h", "*win = dp_ct_unscale(*win, *sws);", ""),
    ("TCP: shifted by the peer without scaling", "ct_tcp.h", "dst->win = dst->win << (dst->wscale & DP_CT_WSCALE_MASK) & 0xffff;", ""),
    ("TCP: 16 bits of it", "ct_tcp.h", "(dst->wscale & DP_CT_WSCALE_MASK) & 0xffff;",
     "(dst->wscale & DP_CT_WSCALE_MASK) > 0xffff ? 0xffff : dst->win << (dst->wscale & DP_CT_WSCALE_MASK) & 0xffff;"),
    ("TCP: a segment without data is checked at seqlo", "ct_tcp.h", "seq = end = src.seqlo; ", "(void) 0; "),
    ("TCP: an RST hits seqlo", "ct_tcp.h", "off >= -1 && off <= 1", "off >= -2 && off <= 1"),
    ("TCP: an RST hits seqlo + 1", "ct_tcp.h", "off >= -1 && off <= 1", "off >= -1 && off <= 0"),
    ("TCP: outside does not refresh", "ct_tcp.h",
     "so that a flood cannot keep it. */", "so that a flood cannot keep it. */ *refresh = 1;"),
    ("TCP: outside is tolerated while it opens", "ct_tcp.h", "(dst.state < DP_CT_TCP_SYN_SENT || dst.state", "(dst.state"),
    ("TCP: how old an ACK may be", "ct_tcp.h", "#define DP_CT_TCP_SKEW (0xffff + 1500)", "#define DP_CT_TCP_SKEW (0xffff + 1499)"),
    ("TCP: no sequence check", "ct_tcp.h", "if (inside || no_seq_check)", "if (inside)"),
    ("TCP: window scale is at most 14", "ct_packet.h", "(p[2] < DP_TCP_WSCALE_MAX ? p[2] : DP_TCP_WSCALE_MAX)", "p[2]"),
    ("TCP: the last window scale counts", "ct_packet.h",
     "run->tcp_wscale = (p[2]", "run->tcp_wscale = run->tcp_wscale ? run->tcp_wscale : (p[2]"),
    ("TCP: FIN and its time", "ct_tcp.h",
     "more >= DP_CT_TCP_CLOSING ? DP_CT_TM_TCP_CLOSING", "more >= DP_CT_TCP_FIN_WAIT_2 ? DP_CT_TM_TCP_CLOSING"),
    ("others: established by a reply", "ct_other.h", "class = reply ? DP_CT_TM_OTHER_BIDIR : DP_CT_TM_OTHER_MULTIPLE;",
     "class = DP_CT_TM_OTHER_BIDIR;"),
    ("others: their times", "ct_other.h",
     "DP_CT_TM_OTHER_BIDIR : DP_CT_TM_OTHER_MULTIPLE;", "DP_CT_TM_OTHER_BIDIR : DP_CT_TM_OTHER_FIRST;"),
    ("others: addresses only", "ct_packet.h",
     "t->l4[0] = t->l4[1] = 0;\n", "t->l4[0] = t->l4[1] = t->proto;\n    if (t->proto == 132) { dp_ct_ports(ctx, t, run->l4); }\n"),
    ("ICMP: a request begins", "ct_other.h", "run->icmp_type == 8 || run->icmp_type == 13 || run->icmp_type == 15", "1"),
    ("ICMP: established by an answer", "ct_other.h", "class = reply ? DP_CT_TM_ICMP_REPLY : class;", ""),
    ("ICMP: id", "ct_packet.h", "t->l4[1] = DP_CT_L4(dp_load16(icmp + 4), answer);", "t->l4[1] = DP_CT_L4(0, answer);"),
    ("ICMP: types", "ct_packet.h", "    case 13: return 14; ", "    case 13: return 16; "),
    ("ICMP: code", "ct_packet.h", "if (answer < 0 || icmp[1]) {", "if (answer < 0) {"),
    ("valid-new: +new alone", "ct_run.h", "        run->md.state |= DP_CS_NEW;\n", "        run->md.state |= DP_CS_NEW | rpl;\n"),
    ("damaged: no tuple", "ct_run.h", "        md->state = DP_CS_INV;\n        dp_ct_write(ctx, md, action->zone, 0, 0);",
     "        md->state = DP_CS_INV;\n        dp_ct_write(ctx, md, action->zone, 0, &run->tuple);"),
    ("ICMP errors: the time does not begin anew", "ct_run.h", "    if (run->related) {\n        run->md.state |=",
     "    if (run->related) {\n        dp_ct_refresh(dp_ct_lives_at(ctx, DP_CT_REF_INDEX(run->ref)), now);\n        run->md.state |="),
    ("ICMP errors: +rel", "ct_run.h", "run->md.state |= DP_CS_REL | rpl;", "run->md.state |= rpl;"),
    ("ICMP errors: +rpl", "ct_run.h", "run->md.state |= DP_CS_REL | rpl;", "run->md.state |= DP_CS_REL;"),
    ("ICMP errors: about whom they go to", "ct_error.h", "dp_load32(ip + 12) != t->addr[1][0]", "0"),
    ("ICMP errors: begin nothing", "ct_run.h", "} else if (run->related) {", "} else if (0) {"),
    ("ICMP errors: the quote is translated back", "ct_nat.h",
     "        dp_ct_rewrite(ctx, run->inner_l3, run->inner_l4, run->l4 + run->l4_len - run->inner_l4, &same, !src);\n", ""),
    ("ICMP errors: checksum", "ct_nat.h", "        dp_ct_sum_error(ctx, run);\n", ""),
    ("ICMP errors: length of what is quoted", "ct_error.h", "t->v6 ? DP_TCP_LEN : DP_CT_QUOTED", "DP_CT_QUOTED"),
    ("NAT: the other address in replies", "ct_nat.h",
     "src = !!(key->nat & DP_CT_NAT_SRC) != reply;", "src = !!(key->nat & DP_CT_NAT_SRC);"),
    ("NAT: ports", "ct_nat.h", "__u16 port = DP_CT_L4_PORT(t->l4[!i]);", "__u16 port = DP_CT_L4_PORT(t->l4[i]);"),
    ("NAT: transport's checksum", "ct_nat.h", "dp_csum_transport(ctx, l4 + 6, pseudo, DP_CSUM_PSEUDO | DP_CSUM_UDP);", ""),
    ("NAT: no UDP checksum stays none", "ct_nat.h", "dp_csum_transport(ctx, l4 + 6, ports, DP_CSUM_UDP);",
     "dp_csum_transport(ctx, l4 + 6, ports, 0);"),
    ("NAT: not twice in a zone", "ct_run.h", "if (!(run->md.state & DP_CS_NAT) || run->md.zone != action->zone) {", "if (1) {"),
    ("NAT: nobody else has the second tuple", "ct_nat.h", "return dp_ct_find(ctx, &run->reply, now) != 0;", "return 0;"),
    ("NAT: source ports below 512", "ct_nat.h", "ports->min = port < 512 ? 1 :", "ports->min = port < 512 ? 600 :"),
    ("NAT: source ports below 1024", "ct_nat.h", "port < 1024 ? 600 : 1024;", "port < 1024 ? 1 : 1024;"),
    ("NAT: ports in turn", "ct_nat.h", "port >= ports->max ? ports->min : port + 1;", "port >= ports->max ? ports->min : port + 2;"),
    ("NAT: exhausted, not translated", "ct_run.h",
     "if (run->ref && action->flags & DP_CT_NAT) {", "if (action->flags & DP_CT_NAT) {\n        run->ref = run->ref ? run->ref : 2;"),
    ("NAT: address of the range", "ct_nat.h", "min + (n ? hash % n : hash)", "min"),
    ("NAT: zeros keep the address", "ct_nat.h", "if (action->nat.min[0] || action->nat.min[1]) {", "if (1) {"),
    ("timeout policy of the connection", "ct_new.h", "key->policy = action->policy;", "key->policy = 0;"),
    ("judged once although another was faster", "ct_tcp.h", "value = dp_ct_merge_state(old, new, expected);", "value = expected;"),
    ("merging windows", "ct_tcp.h", "value = dp_ct_merge_window(old, new, expected);", "value = expected;"),
    ("a slot that another took", "ct_new.h",
     "!dp_ct_swap(&bucket->slot[i], &slot, new)", "(dp_ct_swap(&bucket->slot[i], &slot, new), 0)"),
)

# The same of what is beneath: rooms, locks, counts.
TABLE_MUTANTS = (
    ("table: the share of a zone", "ct_new.h", "n_free && DP_READ_ONCE(zone->n_held) >= DP_CT_SHARE * n_free", "0"),
    ("table: nobody has a share of nothing", "ct_new.h", "return n_free && DP_READ_ONCE", "return DP_READ_ONCE"),
    ("table: entries are held", "ct_new.h", "    dp_ct_hold(ctx, key->zone, 1);\n", ""),
    ("table: entries are given back", "ct_new.h", "    dp_ct_hold(ctx, key->zone, -1);\n", ""),
    ("table: refusals are counted by zone", "ct_new.h", "__sync_fetch_and_add(&zone->n_refused, 1);", ""),
    ("table: a lock that somebody holds", "ct_new.h", "!__sync_val_compare_and_swap(&bucket->lock, 0, owner)",
     "(__sync_val_compare_and_swap(&bucket->lock, 0, owner), 1)"),
    ("table: looked for elsewhere", "ct.h", "if (!ref && DP_READ_ONCE(bucket->n_elsewhere)) {", "if (0) {"),
    ("table: what stands elsewhere is counted", "ct_new.h", "    __sync_fetch_and_add(&bucket->n_elsewhere, 1);\n", ""),
    ("table: what stood elsewhere is taken back", "ct_new.h", "            __sync_fetch_and_add(&home->n_elsewhere, -1);\n", ""),
    ("table: places of the dead", "ct_new.h", "any || DP_CT_SLOT_TAG(old) == DP_CT_SLOT_TAG(slot)", "0"),
    ("table: places of the dead with another tag", "ct_new.h", "any || DP_CT_SLOT_TAG(old)", "DP_CT_SLOT_TAG(old)"),
    ("table: only those that a limit counted", "ct_new.h", "if (z && DP_READ_ONCE(z->seq) == seq) {", "if (z) {"),
    ("table: refused by all, not counted in its zone", "ct_new.h", "            __sync_fetch_and_add(&zone->count, -1);\n", ""),
    ("table: half published is not found", "ct_new.h", "first ? run->ref | 1 : 0);", "run->ref | 1);"),
    ("table: half published leaves no slot", "ct_new.h", "    DP_WRITE_ONCE(bucket->slot[i], 0);\n", ""),
    ("table: not published is free", "ct_new.h", "        run->ref = 0;\n        dp_ct_free(ctx, index - 1);\n", "        run->ref = 0;\n"),
    ("table: a tuple that is there", "ct_new.h", "if (!dp_ct_find(ctx, &run->tuple, now) && !(", "if (!("),
    ("table: the dead are not found", "ct.h", "    if (state & DP_CT_DEAD) {\n        return 1;\n    }\n", ""),
    ("table: 128 ports are tried", "ct_nat.h", "#define DP_CT_NAT_TRIES 128", "#define DP_CT_NAT_TRIES 127"),
    ("table: then others of the range", "ct_nat.h", "        ports->tries /= 2;\n", "        break;\n"),
    ("table: a range is not left", "ct_nat.h", "port >= ports->max ? ports->min : port + 1;", "port + 1;"),
    ("table: clocks are compared signed", "ct.h", "(__s32) (now - DP_READ_ONCE(life->used)) >= (__s32) policy",
     "(now - DP_READ_ONCE(life->used)) >= policy"),
)

UNIT_FLAGS = "-std=gnu11 -O1 -w -fno-strict-aliasing -D_GNU_SOURCE".split()
OVS_FLAGS = "-std=gnu11 -O1 -w -fno-strict-aliasing -D_GNU_SOURCE -DHAVE_CONFIG_H".split()


def compile_in(folder, tree, ovs, names):
    for name in names:
        includes = ["-I", str(folder), "-I", str(tree)]
        for part in ("", "include", "lib"):
            includes += ["-isystem", str(ovs / part)]
        subprocess.run(["cc", *OVS_FLAGS, *includes, "-c", str(tree / name), "-o",
                        str(folder / (pathlib.Path(name).stem + ".o"))], check=True)


def link(objects, ovs, out):
    makefile = (ovs / "Makefile").read_text(encoding="utf-8").splitlines()
    libs = [word for line in makefile if line.startswith(("LIBS =", "SSL_LIBS =", "CAPNG_LDADD ="))
            for word in line.split("=", 1)[1].split()]
    archives = ["ofproto/.libs/libofproto.a", "lib/.libs/libsflow.a", "lib/.libs/libopenvswitch.a",
                "lib/.libs/libopenvswitchavx512.a"]
    subprocess.run(["cc", *map(str, objects), *(str(ovs / a) for a in archives if (ovs / a).exists()), *libs, "-lxdp", "-lbpf",
                    "-o", str(out)], check=True)


@contextlib.contextmanager
def mutated(mutant):
    """A folder with the mutant's dp/, or None if it cannot be made."""
    _, name, old, new = mutant
    text = (TOP / "dp" / name).read_text(encoding="utf-8")
    if old not in text:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(TOP / "dp", folder / "dp")
        (folder / "dp" / name).write_text(text.replace(old, new, 1), encoding="utf-8")
        yield folder


def fate(*test):
    """What became of a mutant, in a word, that 'test' judges."""
    done = subprocess.run(["prlimit", f"--cpu={SECONDS}", "--", *map(str, test)], capture_output=True, check=False)
    if done.returncode == -signal.SIGXCPU:
        return "died: it hangs"
    if not done.returncode:
        return "LIVES"
    last = done.stdout.decode(errors="replace").strip().splitlines()
    return "died: " + (last[-1] if done.returncode > 0 and last else f"status {done.returncode}")


def judge(mutant, base, ovs):
    with mutated(mutant) as folder:
        if not folder:
            return "CANNOT BE MADE"
        compile_in(folder, TOP, ovs, ["tests/parity/oracle_ct.c"])
        objects = [folder / "oracle_ct.o"] + [base / f for f in ("make_ct.o", "test_ct.o", "oracle_parse.o", "compile_key.o")]
        link(objects, ovs, folder / "test_ct")
        return fate(folder / "test_ct", ROUNDS)


def judge_table(mutant):
    with mutated(mutant) as folder:
        if not folder:
            return "CANNOT BE MADE"
        subprocess.run(["cc", *UNIT_FLAGS, "-I", str(folder), "-I", str(TOP), str(TOP / "tests/unit/test_dp_ct.c"), "-lcmocka",
                        "-o", str(folder / "test")], check=True)
        return fate(folder / "test")


def main():
    ovs = (pathlib.Path(sys.argv[1]) / "openvswitch").resolve()
    wanted, tables = ([m for m in all_of if not sys.argv[2:] or any(word in m[0] for word in sys.argv[2:])]
                      for all_of in (MUTANTS, TABLE_MUTANTS))
    living = 0
    with tempfile.TemporaryDirectory() as base:
        base = pathlib.Path(base)
        if wanted:
            compile_in(base, TOP, ovs, ["tests/parity/make_ct.c", "tests/parity/test_ct.c", "tests/parity/oracle_parse.c",
                                        "ovs/fastpath/compile_key.c"])
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            fates = itertools.chain(pool.map(lambda m: judge(m, base, ovs), wanted), pool.map(judge_table, tables))
            for mutant, word in zip(wanted + tables, fates):
                living += not word.startswith("died")
                print(f"{mutant[0]:60} {word}", flush=True)
    print(f"{len(wanted + tables)} mutants, {living} alive")
    return living != 0


if __name__ == "__main__":
    sys.exit(main())
