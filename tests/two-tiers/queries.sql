-- A table that does not fit the near node, and look-ups of which most are for few rows.
create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
insert into t select i, hex(zeroblob(700)) from n;
create view queries as
with recursive n(i) as (select 1 union all select i + 1 from n where i < 8000)
select abs(random() % 1000000) / 1000000.0 as u from n;
.print loaded
select count(*), sum(length(b)) from queries join t on a = 1 + cast(u*u*u*u*60000 as integer) * 7919 % 60000;
select count(*), sum(length(b)) from queries join t on a = 1 + cast(u*u*u*u*60000 as integer) * 7919 % 60000;
select count(*), sum(length(b)) from queries join t on a = 1 + cast(u*u*u*u*60000 as integer) * 7919 % 60000;
select count(*), sum(length(b)) from queries join t on a = 1 + cast(u*u*u*u*60000 as integer) * 7919 % 60000;
select count(*), sum(length(b)) from queries join t on a = 1 + cast(u*u*u*u*60000 as integer) * 7919 % 60000;
.print begin
select count(*), sum(length(b)) from queries join t on a = 1 + cast(u*u*u*u*60000 as integer) * 7919 % 60000;
.print end
