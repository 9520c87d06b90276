# HGX H200 8-GPU: what the simulated instruments answer with. Figures: NVIDIA H200 data sheet (141 GB, 700 W, 18 links), HGX bus ids as seen on SXM5 servers.
name=NVIDIA H200
brand=NVIDIA
architecture=Hopper
device_id=233510DE
subsystem_id=18BE10DE
part_number=2335-895-A1
board_part_number=695-2G520-0280-000
vbios=96.00.A5.00.03
driver=580.95.05
cuda=13.0
memory_mib=143771
bar1_mib=262144
power_limit=700
idle_power=76
pcie_gen=5
pcie_width=16
links=18
link_speed=26.562
link_name=NV18
banks=3072
fabric=1
clock_sm=1980
clock_mem=3201
shutdown_margin=-8
slowdown_margin=-2
gpu=1B:00.0 module=3 numa=0
gpu=43:00.0 module=2 numa=0
gpu=52:00.0 module=1 numa=0
gpu=61:00.0 module=4 numa=0
gpu=9D:00.0 module=7 numa=1
gpu=C3:00.0 module=6 numa=1
gpu=D1:00.0 module=5 numa=1
gpu=DF:00.0 module=8 numa=1
