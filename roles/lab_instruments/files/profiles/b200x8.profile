# HGX B200 8-GPU: what the simulated instruments answer with. Figures: NVIDIA B200 data sheet (180 GB, 1000 W, 18 links of 50 GB/s), bus ids as on HGX H100.
name=NVIDIA B200
brand=NVIDIA
architecture=Blackwell
device_id=290110DE
subsystem_id=199910DE
part_number=2901-886-A1
board_part_number=692-2G525-0220-000
vbios=97.00.88.00.0F
driver=580.95.05
cuda=13.0
memory_mib=183359
bar1_mib=262144
power_limit=1000
idle_power=140
pcie_gen=5
pcie_width=16
links=18
link_speed=53.125
link_name=NV18
banks=3072
fabric=1
clock_sm=1965
clock_mem=3996
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
