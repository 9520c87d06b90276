# HGX A100 8-GPU: what the simulated instruments answer with. Figures: NVIDIA A100 data sheet (80 GB, 400 W, 12 links), bus ids as seen on SXM4 servers.
name=NVIDIA A100-SXM4-80GB
brand=NVIDIA
architecture=Ampere
device_id=20B210DE
subsystem_id=147F10DE
part_number=20B2-895-A1
board_part_number=692-2G506-0210-002
vbios=92.00.9E.00.01
driver=580.95.05
cuda=13.0
memory_mib=81920
bar1_mib=131072
power_limit=400
idle_power=60
pcie_gen=4
pcie_width=16
links=12
link_speed=25
link_name=NV12
banks=640
fabric=1
clock_sm=1410
clock_mem=1593
shutdown_margin=-8
slowdown_margin=-5
gpu=07:00.0 module=1 numa=0
gpu=0F:00.0 module=2 numa=0
gpu=47:00.0 module=3 numa=0
gpu=4E:00.0 module=4 numa=0
gpu=87:00.0 module=5 numa=1
gpu=90:00.0 module=6 numa=1
gpu=B7:00.0 module=7 numa=1
gpu=BD:00.0 module=8 numa=1
