# SPDX-License-Identifier: Apache-2.0
# Completion of the ovs-xdp-* commands in bash.  Options are those that --help names.  (ovs-appctl xdp/... is completed by Open
# vSwitch's own ovs-appctl-bashcomp.bash, which asks the daemon.)

_ovs_xdp() {
    local command=$1 word=$2 words=
    case $word in
    -*) words=$("$command" --help 2>&1 | grep -oE -- '(^|[[ ,|])--?[a-zA-Z][-a-z]*' | tr -d '[ ,|' | sort -u) ;;
    *)
        case ${command##*/} in
        ovs-xdp-tcpdump | ovs-xdp-check) words=$(ls /sys/class/net) ;;
        ovs-xdp-trace) words="port= flow=ufid: drops slow every= bytes= datapath= $(ls /sys/class/net | sed 's/^/port=/')" ;;
        esac ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _ovs_xdp ovs-xdp-check ovs-xdp-exporter ovs-xdp-obj ovs-xdp-report ovs-xdp-tcpdump ovs-xdp-top ovs-xdp-trace
