# Which GPUs and which fault the (virtual) server claims: sourced by the simulated tools. Sets profile, fault, chassis, serials (of the GPUs).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# The strings are SMBIOS OEM strings, so that they belong to the server and not to the image; a node without SMBIOS has them in a file.
# AICLUSTER_INSTRUMENTS_ROOT: another root directory, for trying the tools out on a machine that is not a lab node.
root=${AICLUSTER_INSTRUMENTS_ROOT:-}
lib=$root/usr/lib/aicluster
if [ -r "$root/etc/aicluster/hardware-strings" ]; then
    strings=$(cat "$root/etc/aicluster/hardware-strings")
else
    strings=$(grep -ao 'aicluster\.[a-z_]*=[A-Za-z0-9_.,:-]*' "$root/sys/firmware/dmi/tables/DMI" 2>/dev/null)
fi
profile='' fault='' chassis='' serials=''
for string in $strings; do
    case $string in
        aicluster.gpu_profile=*) profile=${string#*=} ;;
        aicluster.fault=*) fault=${string#*=} ;;
        aicluster.gpu_serials=*) serials=${string#*=} ;;
        aicluster.serial=*) chassis=${string#*=} ;;
    esac
done
case $profile in *[!a-z0-9_]*) profile='' ;; esac
case $fault in none | null) fault='' ;; esac
# a container sees its host's SMBIOS, which says nothing about the node
if [ -z "$chassis" ] && [ ! -r "$root/etc/aicluster/hardware-strings" ]; then
    read -r chassis 2>/dev/null <"$root/sys/class/dmi/id/product_serial" || chassis=''
fi
[ -n "$chassis" ] || chassis=$(uname -n)
render() { # render MODE [-v name=value ...]
    mode=$1; shift
    seed=$(printf %s "$chassis" | cksum); seed=${seed%% *}
    exec awk -v mode="$mode" -v fault="$fault" -v chassis="$chassis" -v serials="$serials" -v seed="$seed" "$@" -f "$lib/instruments/instruments.awk" "$lib/instruments/profiles/$profile.profile"
}
