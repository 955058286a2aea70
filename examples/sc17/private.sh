#!/bin/bash
#SBATCH --partition=regular
#SBATCH --nodes=1
#SBATCH --time=00:05:00
#SBATCH --job-name="job_private"

# Private: every compute node has a tree of its own, which the others do not see.
#DW jobdw type=scratch access_mode=private capacity=@CAPACITY@

echo "*** path of this node's own tree:"
echo $DW_JOB_PRIVATE

echo "scratch data of $(hostname)" > $DW_JOB_PRIVATE/local.txt
cat $DW_JOB_PRIVATE/local.txt
