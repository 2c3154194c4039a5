# SPDX-License-Identifier: Apache-2.0
"""OpenFlow rules of a stateful firewall: red may open connections to everybody, others may only answer."""

STATEFUL = ("table=0,priority=10,arp,actions=normal",
            *(f"table=0,priority=10,icmp6,icmp_type={kind},actions=normal" for kind in (135, 136)),
            "table=0,priority=1,ip,actions=ct(table=1{nat})", "table=0,priority=1,ipv6,actions=ct(table=1{nat})",
            "table=1,priority=2,ct_state=+trk+est,actions=normal",
            "table=1,priority=2,ct_state=+trk+rel,actions=normal",
            "table=1,priority=1,in_port=to-red,ip,ct_state=+trk+new,actions=ct(commit{commit}),normal",
            "table=1,priority=1,in_port=to-red,ipv6,ct_state=+trk+new,actions=ct(commit),normal")


def stateful(switch, nat="", commit=""):
    switch.flows("br0", *(flow.format(nat=nat, commit=commit) for flow in STATEFUL))
