#!/bin/bash
#SBATCH --partition=regular
#SBATCH --nodes=1
#SBATCH --time=00:05:00
#SBATCH --job-name="job_stage_in"

#DW jobdw capacity=@CAPACITY@ access_mode=striped type=scratch pool=wlm_pool

# The contents of a directory and one file are there before the first command runs. The directive of the directory goes on in a
# second line, which repeats the prefix.
#DW stage_in source=@PFS@/data/ destination=$DW_JOB_STRIPED/data \
#DW          type=directory
#DW stage_in source=@PFS@/data/file.dat destination=$DW_JOB_STRIPED/ type=file

echo "*** path of the allocation:"
echo $DW_JOB_STRIPED

echo "*** ls -lrtha $DW_JOB_STRIPED/"
ls -lrtha $DW_JOB_STRIPED/

echo "*** ls -lrtha $DW_JOB_STRIPED/data/"
ls -lrtha $DW_JOB_STRIPED/data/

echo "*** checksums"
cd $DW_JOB_STRIPED && cksum file.dat data/*
