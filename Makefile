# SPDX-License-Identifier: Apache-2.0
# A thin front: the build is Meson's, the work is done by scripts/.  MESON_ARGS=-Dovs_source=DIR builds against
# another Open vSwitch tree; CC= and CLANG= choose compilers; ARGS are handed on, for example make check ARGS=test_vlan.
B ?= build
BUILD = scripts/build $(B) $(MESON_ARGS)

# Chosen by nobody, CC is make's own default: Meson knows better.
ifeq ($(origin CC),default)
unexport CC
else
export CC
endif
export CLANG

.PHONY: all deps demo check check-all check-ovs check-ovn check-vm check-package bench bench-compare install uninstall clean help

all: deps ; @$(BUILD) && scripts/next $(B)
deps: ; @scripts/deps

demo: ; @scripts/deps Demo && $(BUILD) && scripts/demo $(ARGS)
check: ; @scripts/deps Test && $(BUILD) && scripts/check $(B) $(ARGS)
check-all: ; @scripts/deps Test Clang Vm Package Arm64 && scripts/check-all $(ARGS)
check-ovs: ; @scripts/deps Test && $(BUILD) && tests/ovs/run $(ARGS)
check-ovn: ; @scripts/deps Test && $(BUILD) && tests/ovn/run $(if $(OVN_SOURCE),--source $(OVN_SOURCE)) $(ARGS)
check-vm: ; @scripts/deps Test Vm && $(BUILD) && tests/vm/run $(ARGS)
check-package: ; @scripts/deps Test Package && tests/package/run $(ARGS)
bench: ; @scripts/deps Bench $(if $(QUICK)$(CASES)$(PEERS),,Vm) && $(BUILD) && bench/run --build $(B) $(ARGS)

# make bench-compare OLD.json NEW.json: files among the goals are this target's arguments.
COMPARED = $(filter %.json,$(MAKECMDGOALS))
bench-compare: ; @bench/compare $(COMPARED)
ifneq ($(COMPARED),)
.PHONY: $(COMPARED)
$(COMPARED): ; @:
endif

install: deps ; @$(BUILD) && scripts/install $(B) "$(DESTDIR)"
uninstall: ; @scripts/install --remove $(B)
clean: ; @rm -rf $(B) $(B)-asan

help:
	@echo 'make            install the Debian packages that are missing, build $(B)/ovs-vswitchd-xdp; CC=, CLANG=: with these compilers'
	@echo 'make demo       see it forward between containers (root)'
	@echo 'make check      all quick tests (root); ARGS=NAME: one part, test file, test function or unit test'
	@echo 'make check-all  everything there is, about ten hours, ends with a table (root); ARGS=--list: its parts'
	@echo "make check-ovs  Open vSwitch's own test suites on the xdp datapath (root); ARGS=--no-offload: on its engine alone, --hook=xdp: every port on XDP"
	@echo "make check-ovn  OVN's system tests on the xdp datapath (root); OVN_SOURCE=DIR: OVN's source tree"
	@echo 'make check-vm   the same on the stock Debian kernel in an emulated machine'
	@echo 'make check-package  build the Debian packages, test them in a system made from Debian'"'"'s archive (root)'
	@echo 'make bench      measure, beside what could be used instead, and draw it (root); QUICK=1, CASES=, ROUNDS='
	@echo 'make bench-compare A.json B.json   what changed beyond noise'
	@echo 'make install    install the daemon (DESTDIR=...)'
	@echo 'make uninstall  remove what make install installed last'
	@echo 'make clean      remove what was built here'
