# disks.sh: which disks this machine has, and which one of them the spec's rule names. Sourced by init; tests give it a /sys of their own.
# Rule: size within DISK_MIN_BYTES..DISK_MAX_BYTES (0: no limit), DISK_TYPE (any|nvme|ssd|hdd), DISK_SERIAL (empty: any).
# Exactly one disk may match. None, or more than one, is an error: no disk is ever guessed.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

sys=${sys:-/sys}

# One line for each disk: NAME BYTES TYPE SERIAL ("-" where the disk has none).
list_disks() {
  for block in "$sys"/block/*; do
    [ -e "$block/size" ] || continue
    name=${block##*/}
    case $name in loop* | ram* | sr* | fd* | dm-* | md* | zram* | nbd* | mtd*) continue ;; esac
    # Multipath NVMe shows one head (nvme0n1) and hidden paths (nvme0c0n1).
    [ "$(cat "$block/hidden" 2> /dev/null)" != 1 ] || continue
    [ "$(cat "$block/removable" 2> /dev/null)" != 1 ] || continue
    [ "$(cat "$block/ro" 2> /dev/null)" != 1 ] || continue
    bytes=$(($(cat "$block/size") * 512))
    [ "$bytes" -gt 0 ] || continue
    case $name in
      nvme*) type=nvme ;;
      *) if [ "$(cat "$block/queue/rotational" 2> /dev/null)" = 0 ]; then type=ssd; else type=hdd; fi ;;
    esac
    serial=
    for file in "$block/serial" "$block/device/serial"; do
      [ -r "$file" ] && serial=$(tr -d '\000' < "$file" | tr -cd 'A-Za-z0-9._-') && [ -n "$serial" ] && break
    done
    # SCSI and SATA: the unit serial number page (SPC, VPD page 80h) has 4 header bytes.
    [ -n "$serial" ] || ! [ -r "$block/device/vpd_pg80" ] || serial=$(dd if="$block/device/vpd_pg80" bs=1 skip=4 2> /dev/null | tr -cd 'A-Za-z0-9._-')
    echo "$name $bytes $type ${serial:--}"
  done
}

# Reads list_disks lines; prints the lines that the rule allows.
matching_disks() {
  while read -r name bytes type serial; do
    [ "$bytes" -ge "${DISK_MIN_BYTES:-0}" ] || continue
    [ "${DISK_MAX_BYTES:-0}" -eq 0 ] || [ "$bytes" -le "$DISK_MAX_BYTES" ] || continue
    case ${DISK_TYPE:-any} in any | "$type") ;; *) continue ;; esac
    [ -z "${DISK_SERIAL:-}" ] || [ "$DISK_SERIAL" = "$serial" ] || continue
    echo "$name $bytes $type $serial"
  done
}

describe_rule() {
  echo "type ${DISK_TYPE:-any}, ${DISK_MIN_BYTES:-0} to ${DISK_MAX_BYTES:-0} bytes (0: no limit), serial ${DISK_SERIAL:-any}"
}

# Prints the chosen disk's line; on failure prints the reason and returns 1.
choose_disk() {
  seen=$(list_disks)
  listed=$(echo "$seen" | tr '\n' ';')
  chosen=$(echo "$seen" | { [ -z "$seen" ] || matching_disks; })
  if [ -z "$seen" ]; then
    echo "no disk found; wanted: $(describe_rule); next: check the disk's driver and cabling"
    return 1
  elif [ -z "$chosen" ]; then
    echo "no disk matches the rule; wanted: $(describe_rule); seen: $listed next: change the rule or the disk"
    return 1
  elif [ "$(echo "$chosen" | wc -l)" -ne 1 ]; then
    echo "more than one disk matches the rule; wanted: $(describe_rule); seen: $listed next: give the serial of the disk to use"
    return 1
  fi
  set -- $chosen
  if [ "$2" -lt "${IMAGE_SIZE:-0}" ]; then
    echo "the disk is too small; wanted: at least $IMAGE_SIZE bytes for image ${IMAGE_NAME:-}; seen: $1 $2 $3 $4; next: use a larger disk or a smaller image"
    return 1
  fi
  echo "$chosen"
}
