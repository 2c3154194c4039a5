# SPDX-License-Identifier: Apache-2.0
"""What Neutron makes of a datapath type: run with its packages in PYTHONPATH, with Open_vSwitch:iface_types as a list with commas and
the types as arguments; prints JSON, {type: {question: answer}}."""
import json
import pathlib
import sys
import tempfile
from unittest import mock

from neutron.conf.agent.ovn.metadata import config as ovn_agent
from neutron.conf.plugins.ml2.drivers import ovs_conf
from neutron.plugins.ml2.drivers.openvswitch.mech_driver import mech_openvswitch
from neutron.plugins.ml2.drivers.ovn.mech_driver import mech_driver
from neutron_lib.api.definitions import portbindings
from oslo_config import cfg


def parsed(register, text):
    """The options of an agent whose file says that."""
    conf = cfg.ConfigOpts()
    register(conf)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "agent.ini"
        file.write_text(text, encoding="utf-8")
        conf(["--config-file", str(file)], project="neutron")
    return conf


def says_ovs_agent(kind):
    """The type that ML2/OVS's agent makes bridges with, or why it does not start."""
    try:
        return parsed(ovs_conf.register_ovs_agent_opts, f"[ovs]\ndatapath_type = {kind}\n").OVS.datapath_type
    except cfg.Error as error:
        return str(error)


def says_ovn_agent(kind):
    """Whether ML2/OVN's agent, which takes the bridge as it is, has the option at all."""
    conf = parsed(lambda conf: ovn_agent.register_meta_conf_opts(ovn_agent.OVS_OPTS, conf, "ovs"), f"[ovs]\ndatapath_type = {kind}\n")
    return "datapath_type" in conf.ovs


def vif_of_ovs(kind, iface_types):
    """What ML2/OVS's server has Nova plug, by what the agent reports."""
    agent = {"configurations": {"datapath_type": kind, "ovs_capabilities": {"iface_types": iface_types}}}
    driver = mock.Mock(vif_type=portbindings.VIF_TYPE_OVS)
    return mech_openvswitch.OpenvswitchMechanismDriver.get_supported_vif_type(driver, agent)


def vif_of_ovn(kind, iface_types):
    """What ML2/OVN's server has Nova plug, by what ovn-controller reports of its chassis."""
    driver, context, agent = mock.MagicMock(), mock.MagicMock(), mock.MagicMock()
    driver.supported_vnic_types = [portbindings.VNIC_NORMAL]
    driver.vif_details = {name: {} for name in (portbindings.VIF_TYPE_OVS, portbindings.VIF_TYPE_VHOST_USER)}
    agent.chassis.other_config = {"datapath-type": kind, "iface-types": ",".join(iface_types)}
    driver.sb_ovn.db_find.return_value.execute.return_value = [{"other_config": agent.chassis.other_config}]
    context.current = {"id": "port", "fixed_ips": [], portbindings.VNIC_TYPE: portbindings.VNIC_NORMAL, portbindings.VIF_DETAILS: {}}
    context.segments_to_bind = [{"id": "segment", "network_type": "geneve", "segmentation_id": 1, "physical_network": None}]
    with mock.patch.object(mech_driver.ovn_utils, "determine_bind_host", return_value="host"), \
            mock.patch.object(mech_driver.ovn_utils, "is_port_external", return_value=False), \
            mock.patch.object(mech_driver.ovn_utils, "network_needs_lswitch", return_value=True), \
            mock.patch.object(mech_driver.ovn_conf, "get_ovn_vhost_sock_dir", return_value="/run"), \
            mock.patch.object(mech_driver.n_agent, "AgentCache") as cache:
        cache.return_value.get_agents.return_value = [agent]
        mech_driver.OVNMechanismDriver.bind_port(driver, context)
    (_, vif, details), _ = context.set_binding.call_args
    return vif, details[portbindings.OVS_DATAPATH_TYPE]


def main(iface_types, *kinds):
    iface_types = iface_types.split(",")
    print(json.dumps({kind: {"ovs-agent": says_ovs_agent(kind), "ovn-agent": says_ovn_agent(kind),
                             "ovs-vif": vif_of_ovs(kind, iface_types), "ovn-vif": vif_of_ovn(kind, iface_types)} for kind in kinds}))


main(*sys.argv[1:])
