# write.sh: the steps of the deploy ramdisk that change the disk. Sourced by init, which defines fail, event and say.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

partition() { case $1 in *[0-9]) echo "${1}p$2" ;; *) echo "$1$2" ;; esac; }

# The download goes to the disk in one copy, and each part of the disk is read back into one checksum while the next part arrives: the
# checksum is that of the disk's content, and costs no time of its own on a machine with two processors. Read directly (O_DIRECT): the
# kernel first writes what it still holds of that part, says where the disk refused it, and then asks the disk and not its own memory.
# How far the download is, the kernel tells (fdinfo). A broken transfer is tried once more from the start, where this attempt is still
# the node's current one; a complete one with another checksum is not: the same bytes would come again.
ramdisk=${ramdisk:-} scratch=${scratch:-/tmp} # tests give others
part_mib=16
read_parts() {
  at=0
  position=0
  mib=$((IMAGE_SIZE / 1048576))
  while [ "$at" -lt "$mib" ]; do
    count=$((mib - at))
    [ "$count" -le "$part_mib" ] || count=$part_mib
    while [ "$position" -lt $(((at + count) * 1048576)) ]; do
      if [ -s "$scratch"/transfer.rc ]; then
        [ "$(cat "$scratch"/transfer.rc)" = 0 ] || return 1
        break
      fi
      for descriptor in /proc/"$1"/fd/*; do
        [ "$(readlink "$descriptor" 2> /dev/null)" != "$disk" ] || read -r _ position < "/proc/$1/fdinfo/${descriptor##*/}"
      done
      [ "$position" -ge $(((at + count) * 1048576)) ] || sleep 0.2
    done
    dd if="$disk" iflag=direct bs=1M count="$count" skip="$at" 2> "$scratch"/dd.log || return 1
    at=$((at + count))
  done
}
# on_processor N COMMAND...: bound to it where there are several. A pipe whose two ends wake each other across processors costs an
# emulated machine twice what the checksum itself does.
on_processor() {
  processor=$1
  shift
  if [ "$(nproc)" -gt 1 ]; then exec taskset -c "$processor" "$@"; else exec "$@"; fi
}
write_image() {
  [ $((IMAGE_SIZE % 1048576)) -eq 0 ] || fail "image size is not a multiple of 1 MiB; seen: $IMAGE_SIZE"
  export disk IMAGE_SIZE ramdisk scratch
  for try in 1 2; do
    [ "$try" = 1 ] || permit "$disk" || fail "the boot service refused to let the broken transfer be repeated; $disk was made unbootable"
    rm -f "$scratch"/transfer.rc
    : > "$scratch"/dd.log
    on_processor 0 wget -q -O "$disk" "$IMAGE_URL" 2> "$scratch"/wget.log &
    transfer=$!
    on_processor 1 sh -c 'set -o pipefail; . "$ramdisk/write.sh"; read_parts "$1" | sha256sum > "$scratch"/sum' reader "$transfer" &
    reader=$!
    if wait "$transfer"; then echo 0 > "$scratch"/transfer.rc; else echo 1 > "$scratch"/transfer.rc; fi
    wait "$reader"
    read_ok=$?
    sync
    blockdev --flushbufs "$disk" || read_ok=1
    [ "$(cat "$scratch"/transfer.rc)" = 0 ] && [ "$read_ok" = 0 ] && break
    say "transfer $try broke: $(tail -n 1 "$scratch"/wget.log) $(tail -n 1 "$scratch"/dd.log)"
    spoil
    sleep 2
  done
  seen=$(cut -d' ' -f1 "$scratch"/sum)
  if [ "$(cat "$scratch"/transfer.rc)" != 0 ] || [ "$read_ok" != 0 ]; then
    fail "the image could not be written to $disk: $(tail -n 1 "$scratch"/wget.log) $(tail -n 1 "$scratch"/dd.log)"
  fi
  if [ "$seen" != "$IMAGE_SHA256" ]; then
    spoil
    fail "image checksum differs; wanted: $IMAGE_SHA256; seen: $seen; the disk was made unbootable; next: build or copy the image $IMAGE_NAME again"
  fi
  blockdev --rereadpt "$disk" || fail "the kernel does not read the new partition table of $disk"
}

# A half-written or wrong image must never boot: the partition table goes.
spoil() { dd if=/dev/zero of="$disk" bs=1M count=1 conv=fsync 2> /dev/null; }

# The second partition gets the rest of the disk, its file system too, before its first mount.
grow_root() {
  guid=$(sgdisk -i 2 "$disk" | sed -n 's/^Partition unique GUID: //p')
  start=$(sgdisk -i 2 "$disk" | sed -n 's/^First sector: \([0-9]*\).*/\1/p')
  sgdisk -e -d 2 -n "2:$start:0" -t 2:8304 -c 2:root -u "2:$guid" "$disk" > /tmp/sgdisk.log 2>&1 ||
    fail "the root partition cannot be grown: $(tail -n 1 /tmp/sgdisk.log)"
  blockdev --rereadpt "$disk"
  root_device=$(partition "$disk" 2)
  waited=0
  while [ ! -b "$root_device" ]; do
    [ "$waited" -lt 50 ] || fail "$root_device did not appear within 10 s"
    waited=$((waited + 1))
    sleep 0.2
  done
  resize2fs "$root_device" > /tmp/resize.log 2>&1 || fail "the root file system cannot be grown: $(tail -n 1 /tmp/resize.log)"
  root_size=$(sed -n 's/.* is now \([0-9]*\) (\([0-9]*k\)) blocks.*/\1 blocks of \2/p' /tmp/resize.log)
}

# What only this node has: the cloud-init seed, its SSH host key (the public half goes to the registry before anybody connects).
give_identity() {
  seed=/mnt/var/lib/cloud/seed/nocloud
  mkdir -p "$seed"
  chmod 0700 "$seed"
  tar -xzf /tmp/seed.tgz -C "$seed" || fail "the seed cannot be unpacked"
  : > /mnt/etc/machine-id
  rm -f /mnt/etc/ssh/ssh_host_*
  mount -o bind /dev /mnt/dev
  chroot /mnt /usr/bin/ssh-keygen -q -t ed25519 -N '' -C "root@$NODE" -f /etc/ssh/ssh_host_ed25519_key > /tmp/keygen.log 2>&1 ||
    fail "the SSH host key cannot be made: $(tail -n 1 /tmp/keygen.log)"
  umount /mnt/dev
  host_key=$(cut -d' ' -f1,2 /mnt/etc/ssh/ssh_host_ed25519_key.pub)
}

# An entry of our own, first in the firmware's order. A firmware that takes none still boots the default path of the disk.
boot_order() {
  boot_order_result="BIOS boot: nothing to set"
  [ -d /sys/firmware/efi ] || return 0
  modprobe -q efivarfs
  if ! mount -t efivarfs efivarfs /sys/firmware/efi/efivars 2> /dev/null; then
    boot_order_result="firmware variables cannot be read; left to the disk's default path EFI/BOOT/BOOTX64.EFI"
    return 0
  fi
  for entry in $(efibootmgr 2> /dev/null | sed -n 's/^Boot\([0-9A-Fa-f]\{4\}\)[* ] aicluster\([^A-Za-z0-9].*\)\?$/\1/p'); do
    efibootmgr -q -b "$entry" -B
  done
  if efibootmgr -q -c -d "$disk" -p 1 -L aicluster -l '\EFI\BOOT\BOOTX64.EFI' > /tmp/efi.log 2>&1; then
    boot_order_result="entry aicluster is first: $(efibootmgr | sed -n 's/^BootOrder: //p')"
  else
    boot_order_result="the firmware took no entry ($(tail -n 1 /tmp/efi.log)); left to the disk's default path EFI/BOOT/BOOTX64.EFI"
  fi
}
