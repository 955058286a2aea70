#!/bin/bash
#SBATCH --job-name=spectra
#SBATCH --nodes=1
#SBATCH --time=00:10:00
#DW jobdw type=scratch access_mode=striped capacity=1600MiB
#DW stage_in type=directory source=@PFS@/spPlates destination=$DW_JOB_STRIPED/spPlates
#DW stage_in type=file source=@PFS@/spectra.h5 destination=$DW_JOB_STRIPED/spectra.h5
#DW stage_in type=file source=@PFS@/pick1000.txt destination=$DW_JOB_STRIPED/
#DW stage_out type=directory source=$DW_JOB_STRIPED/results destination=@PFS@/@RESULTS@

# The demo's job as a user would submit it. Directives know no shell variables, so run.py fills in the two paths between the
# at-signs; on a cluster they would be written out here.
set -eu
echo "job $SLURM_JOB_ID runs in $DW_JOB_STRIPED"
/usr/bin/python3 "@STEPS@" "$DW_JOB_STRIPED" "$DW_JOB_STRIPED/results"
